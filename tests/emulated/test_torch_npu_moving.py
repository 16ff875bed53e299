"""``.npu()`` on whatever can be moved, and saving and loading what is on the device."""

from __future__ import annotations

import io
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


def loaded(saved: object, map_location: Any, weights_only: bool = True) -> Any:
    """Return what is read back of what was written."""
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, map_location=map_location, weights_only=weights_only)


class TestNpu:
    def test_modules_move_and_keep_their_parameters(self) -> None:
        layer = nn.Linear(2, 2)
        weight = layer.weight
        assert layer.npu(1).weight is weight
        assert weight.device == torch.device("npu:1")

    def test_packed_sequences_move(self) -> None:
        packed = pack_padded_sequence(torch.ones(3, 2, 1), torch.tensor([3, 2]))
        assert not packed.is_npu
        moved = packed.npu(non_blocking=True)
        assert moved.is_npu
        assert moved.data.tolist() == packed.data.tolist()

    def test_storages_move(self) -> None:
        storage = torch.ones(2).untyped_storage()
        assert not storage.is_npu
        assert storage.npu().is_npu
        assert storage.npu().tolist() == storage.tolist()


class TestSaveAndLoad:
    def test_npu_means_the_current_device(self) -> None:
        saved = torch.ones(1, device="npu:0")
        with torch.npu.device(1):
            assert loaded(saved, "npu").device.index == 1

    @pytest.mark.parametrize(
        "make",
        [
            lambda: torch.ones(2, device="npu").requires_grad_(),
            lambda: torch.ones(2, device="npu").untyped_storage(),
            lambda: torch.ones(2, device="npu").storage(),
        ],
        ids=["tensor with gradient", "untyped storage", "typed storage"],
    )
    def test_other_things_with_values(self, make: Callable[[], Any]) -> None:
        saved = make()
        found = loaded(saved, None, weights_only=False)
        assert type(found) is type(loaded(saved.cpu(), None, weights_only=False))
        assert found.device.type == "npu"
        assert found.tolist() == saved.tolist()
