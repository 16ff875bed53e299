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
    @pytest.mark.parametrize("options", [{}, {"non_blocking": True}], ids=["waiting", "not waiting"])
    def test_tensors_move(self, options: dict[str, bool]) -> None:
        tensor = torch.arange(3.0)
        assert tensor.npu(**options).tolist() == [0, 1, 2]
        assert tensor.npu(1, **options).device == tensor.npu("npu:1", **options).device == torch.device("npu:1")
        assert tensor.npu().npu().is_npu

    def test_tensors_move_to_the_current_device(self) -> None:
        with torch.npu.device(1):
            assert torch.ones(1).npu().device.index == 1

    def test_a_tensor_that_is_there_stays(self) -> None:
        tensor = torch.ones(1, device="npu:0")
        assert tensor.npu() is tensor

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
    @pytest.mark.parametrize(
        ("map_location", "device"),
        [
            (None, "npu:1"),
            ("npu", "npu:0"),
            ("npu:2", "npu:2"),
            (torch.device("npu", 2), "npu:2"),
            ("cpu", "cpu"),
            ({"npu:1": "npu:0"}, "npu:0"),
            ({"npu:1": "cpu"}, "cpu"),
            (lambda storage, location: storage, "cpu"),
            (lambda storage, location: storage.npu(2) if location == "npu:1" else None, "npu:2"),
        ],
        ids=["none", "npu", "npu:2", "device", "cpu", "dict", "dict to cpu", "callable", "callable to npu:2"],
    )
    def test_tensors_are_where_they_are_mapped_to(self, map_location: Any, device: str) -> None:
        tensor = torch.arange(4.0, device="npu:1")
        found = loaded({"tensor": tensor}, map_location)["tensor"]
        assert found.device == torch.device(device)
        assert found.tolist() == [0, 1, 2, 3]

    def test_npu_means_the_current_device(self) -> None:
        saved = torch.ones(1, device="npu:0")
        with torch.npu.device(1):
            assert loaded(saved, "npu").device.index == 1

    def test_tensors_of_the_cpu_can_be_mapped_to_the_device(self) -> None:
        assert loaded(torch.ones(2), "npu:1").device == torch.device("npu:1")

    def test_views_still_share_their_storage(self) -> None:
        tensor = torch.zeros(4, device="npu")
        whole, part = loaded([tensor, tensor[1:3]], None)
        part.fill_(7)
        assert whole.tolist() == [0, 7, 7, 0]

    def test_a_device_that_there_is_not_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match="99"):
            loaded(torch.ones(1), "npu:99")

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

    def test_the_state_of_a_model_and_its_optimizer(self) -> None:
        torch.manual_seed(0)
        model = nn.Linear(2, 2).npu()
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 2, device="npu")).sum().backward()
        optimizer.step()
        state = loaded({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "cpu")
        other = nn.Linear(2, 2).npu()
        other.load_state_dict(state["model"])
        resumed = torch.optim.Adam(other.parameters())
        resumed.load_state_dict(state["optimizer"])
        assert other.weight.device.type == "npu"
        assert resumed.state[other.weight]["exp_avg"].device.type == "npu"
        assert torch.equal(resumed.state[other.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"])
