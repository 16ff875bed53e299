"""Selecting, putting, sorting, finding and joining on the emulated NPU."""

from __future__ import annotations

import pytest
import torch
from comparing import agree, assert_same
from samples import values
from torch import Tensor


class TestMask:
    def test_a_mask_on_the_cpu_selects_too(self) -> None:
        x, mask = values(6), torch.tensor([True, False] * 3)
        assert_same(x.npu()[mask], x[mask])


class TestIndexing:
    def test_assigning_slices_and_numbers(self) -> None:
        def assign(x: Tensor, i: Tensor) -> Tensor:
            result = x.clone()
            result[1:3] = 5
            result[:, 0] = result[:, 1]
            result[i] = torch.tensor(1.5)
            return result

        agree(assign, values(5, 3, grad=True), torch.tensor([0, 4]))

    def test_an_index_out_of_range_raises(self) -> None:
        with pytest.raises(IndexError, match="out of"):
            torch.zeros(3, device="npu")[torch.tensor([5])]
