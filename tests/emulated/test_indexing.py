"""Selecting, putting, sorting, finding and joining on the emulated NPU."""

from __future__ import annotations

import pytest
import torch
from checks import check
from comparing import agree, assert_same
from samples import values
from torch import Tensor


@check("boolean mask")
class TestMask:
    def test_selecting(self) -> None:
        agree(lambda x: (x[x > 0], x[(x > 0).any(1)], x.masked_select(x < 0)), values(4, 5, grad=True))

    def test_assigning(self) -> None:
        def fill(x: Tensor) -> Tensor:
            result = x.clone()
            result[result < 0] = 0
            result[result > 1] = result[result > 1] / 2
            return result.masked_fill(result == 0, -1)

        agree(fill, values(4, 5, grad=True))

    def test_a_mask_on_the_cpu_selects_too(self) -> None:
        x, mask = values(6), torch.tensor([True, False] * 3)
        assert_same(x.npu()[mask], x[mask])


@check("index_put")
class TestIndexing:
    @pytest.mark.parametrize("accumulate", [False, True], ids=["last", "sum"])
    def test_putting(self, accumulate: bool) -> None:
        indices = torch.tensor([0, 2, 4] if not accumulate else [0, 2, 2])

        def put(x: Tensor, index: Tensor, new: Tensor) -> Tensor:
            return x.clone().index_put_((index,), new, accumulate=accumulate)

        agree(put, values(5, 2, grad=True), indices, values(3, 2, grad=True))

    def test_advanced_indices(self) -> None:
        rows, columns = torch.tensor([0, 3, 1]), torch.tensor([2, 2, 0])
        agree(
            lambda x, i, j: (x[i, j], x[i], x[:, j], x[..., None, 1:3], x[-1]), values(4, 5, grad=True), rows, columns
        )

    def test_indices_on_the_cpu(self) -> None:
        x = values(5, 2)
        assert_same(x.npu()[torch.tensor([4, 0])], x[torch.tensor([4, 0])])

    def test_assigning_slices_and_numbers(self) -> None:
        def assign(x: Tensor, i: Tensor) -> Tensor:
            result = x.clone()
            result[1:3] = 5
            result[:, 0] = result[:, 1]
            result[i] = torch.tensor(1.5)
            return result

        agree(assign, values(5, 3, grad=True), torch.tensor([0, 4]))

    def test_gather_and_scatter(self) -> None:
        index = torch.tensor([[0, 1, 2], [2, 1, 0]])
        agree(lambda x, i: x.gather(0, i), values(3, 3, grad=True), index)
        agree(lambda x, i, s: x.scatter_add(0, i, s), values(3, 3, grad=True), index, values(2, 3, grad=True))
        agree(lambda x, i: (x.index_select(1, i[0]), x.take_along_dim(i, 0)), values(3, 3, grad=True), index)

    def test_an_index_out_of_range_raises(self) -> None:
        with pytest.raises(IndexError, match="out of"):
            torch.zeros(3, device="npu")[torch.tensor([5])]


@check("sort, topk and nonzero")
class TestSorting:
    def test_sorting(self) -> None:
        agree(lambda x: (tuple(x.sort(1)), tuple(x.topk(2, 0)), x.argsort(0, descending=True)), values(4, 5, grad=True))
        agree(lambda x: (tuple(x.max(1)), tuple(x.median(0)), tuple(x.kthvalue(2))), values(4, 5, grad=True))

    def test_finding(self) -> None:
        x = torch.tensor([[0, 1], [2, 0], [2, 1]])
        agree(lambda x: (x.nonzero(), x.nonzero(as_tuple=True), torch.argwhere(x), torch.count_nonzero(x)), x)
        agree(lambda x: (x.unique(return_inverse=True, return_counts=True), x.bincount(minlength=5)), x.flatten())
        agree(lambda x: (torch.searchsorted(x, x + 1), torch.bucketize(x, x)), torch.arange(4))


@check("cat and stack")
def test_joining_and_splitting() -> None:
    a, b = values(2, 3, grad=True), values(2, 3, grad=True)
    agree(lambda a, b: (torch.cat([a, b], 1), torch.stack([a, b]), torch.hstack([a, b]), torch.vstack([a, b])), a, b)
    agree(lambda a: (a.split(2, 1), a.chunk(2), a.unbind(1), a.tile(2, 1), a.repeat_interleave(2, 0)), a)
