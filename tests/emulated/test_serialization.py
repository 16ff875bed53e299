"""Saving, loading, pickling and copying tensors of the emulated NPU."""

from __future__ import annotations

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from comparing import assert_same
from torch import nn

from npu_emulator.errors import NotEmulated


def saved(thing: Any) -> io.BytesIO:
    """Return a file with the thing."""
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return buffer


class TestSaving:
    def test_a_tensor_returns_to_its_device(self) -> None:
        tensor = torch.arange(3.0, device="npu:1")
        loaded = torch.load(saved(tensor))
        assert loaded.device == torch.device("npu", 1)
        assert_same(loaded, torch.arange(3.0))

    @pytest.mark.parametrize(
        ("location", "device"),
        [
            ("cpu", "cpu"),
            ("npu:1", "npu:1"),
            ("npu", "npu:0"),
            (torch.device("npu", 1), "npu:1"),
            ({"npu:0": "npu:1"}, "npu:1"),
            ({"npu:0": "cpu"}, "cpu"),
            (lambda storage, location: storage, "cpu"),
            (lambda storage, location: storage.npu(1), "npu:1"),
        ],
        ids=["cpu", "npu:1", "npu", "device", "table", "table to cpu", "function", "function to npu"],
    )
    def test_map_location(self, location: Any, device: str) -> None:
        loaded = torch.load(saved(torch.arange(3.0, device="npu")), map_location=location)
        assert loaded.device == torch.device(device)
        assert loaded.tolist() == [0, 1, 2]

    def test_what_the_cpu_saved_loads_on_the_npu(self) -> None:
        assert_same(torch.load(saved(torch.arange(3)), map_location="npu"), torch.arange(3))

    def test_views_of_one_storage_stay_so(self) -> None:
        tensor = torch.arange(4.0, device="npu")
        first, second = torch.load(saved([tensor, tensor[2:]]))
        second.zero_()
        assert first.tolist() == [0, 1, 0, 0]

    def test_a_checkpoint_continues_training(self, tmp_path: Path) -> None:
        model = nn.Linear(3, 1).npu()
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
        x = torch.ones(2, 3, device="npu")

        def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        step(model, optimizer)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint.pt")
        step(model, optimizer)

        resumed = nn.Linear(3, 1).npu()
        resumed_optimizer = torch.optim.AdamW(resumed.parameters(), 0.1)
        checkpoint = torch.load(tmp_path / "checkpoint.pt", map_location="npu:0", weights_only=True)
        resumed.load_state_dict(checkpoint["model"])
        resumed_optimizer.load_state_dict(checkpoint["optimizer"])
        step(resumed, resumed_optimizer)
        assert_same(resumed.weight.detach(), model.weight.detach().cpu())
        state = resumed_optimizer.state[resumed.weight]
        assert state["exp_avg"].is_npu

    def test_a_device_that_there_is_not(self) -> None:
        with pytest.raises(RuntimeError, match=r"(?i)device"):
            torch.load(saved(torch.ones(1)), map_location=f"npu:{torch.npu.device_count()}")

    def test_the_old_format(self) -> None:
        buffer = io.BytesIO()
        torch.save(torch.arange(3.0, device="npu"), buffer, _use_new_zipfile_serialization=False)
        buffer.seek(0)
        assert_same(torch.load(buffer), torch.arange(3.0))


class TestPickling:
    @pytest.mark.parametrize(
        "duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
    )
    def test_duplicates_are_equal_and_apart(self, duplicate: Any) -> None:
        tensor = torch.arange(6.0, device="npu:1").reshape(2, 3).T
        other = duplicate(tensor)
        assert other.device == tensor.device
        assert other.stride() == tensor.stride()
        other.zero_()
        assert_same(tensor, torch.arange(6.0).reshape(2, 3).T)

    def test_parameters_and_modules(self) -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).npu()
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert type(other[0].weight) is nn.Parameter
            assert other[0].weight.requires_grad
            assert_same(dict(other.state_dict()), {name: value.cpu() for name, value in model.state_dict().items()})

    def test_a_shared_storage_is_copied_once(self) -> None:
        tensor = torch.zeros(4, device="npu")
        first, second = copy.deepcopy([tensor, tensor[2:]])
        first.fill_(1)
        assert second.tolist() == [1, 1]

    def test_a_shallow_copy_shares(self) -> None:
        tensor = torch.zeros(2, device="npu")
        copy.copy(tensor).add_(1)
        assert tensor.tolist() == [1, 1]


class TestSendingToAnotherProcess:
    """What queues and arguments of processes are pickled by. On CUDA, the other process gets the same memory."""

    @pytest.mark.parametrize(
        "make",
        [
            lambda tensor: tensor,
            lambda tensor: {"weight": nn.Parameter(tensor)},
            lambda tensor: nn.Linear(1, 1).npu(),
            lambda tensor: tensor.untyped_storage(),
            lambda tensor: tensor.to_sparse(),
        ],
        ids=["tensor", "parameter", "module", "storage", "sparse"],
    )
    def test_memory_of_the_device_is_refused(self, make: Any) -> None:
        with pytest.raises(NotEmulated, match=r"on npu:0 cannot be sent to another process: .* Send tensor\.cpu\(\)"):
            ForkingPickler.dumps(make(torch.ones(2, device="npu")))

    def test_tensors_in_host_memory_are_sent(self) -> None:
        tensor = torch.ones(2, device="npu").cpu()
        received = pickle.loads(ForkingPickler.dumps(tensor))
        received.zero_()
        assert tensor.tolist() == [0, 0]
