"""A device of CUDA and the NPU of the same number are equal under the layer, and only under it."""

from __future__ import annotations

import copy
import pickle
import threading
import typing
from collections.abc import Iterator

import pytest
import torch

import patchcore as pc
from torch_npu_patches.transfer_to_npu import equal_devices
from torch_npu_patches.transfer_to_npu.devices import npu_location
from torch_npu_patches.transfer_to_npu.equal_devices import EqualDevices

CUDA, NPU = torch.device("cuda", 0), torch.device("npu", 0)
BEFORE = {name: vars(torch.device)[name] for name in ("__eq__", "__ne__", "__hash__")}


@pytest.fixture
def equal() -> Iterator[pc.Patcher]:
    with pc.Patcher([pc.Patch("equal", [EqualDevices()])], plugins=[], strict=True) as patcher:
        yield patcher


@pytest.mark.usefixtures("equal")
class TestEqual:
    def test_the_number_counts_and_other_devices_stay_different(self) -> None:
        assert CUDA == NPU
        assert NPU == CUDA
        assert (CUDA != NPU) is False
        assert hash(CUDA) == hash(NPU)
        assert torch.device("cuda") == torch.device("npu")
        assert hash(torch.device("cuda")) == hash(torch.device("npu"))
        for one, other in ((torch.device("cuda", 1), NPU), (torch.device("cuda"), NPU), (torch.device("cpu"), NPU)):
            assert one != other
            assert hash(one) != hash(other)
        assert torch.device("cpu") == torch.device("cpu")
        assert torch.device("cuda", 1) == torch.device("cuda", 1)
        assert CUDA != "cuda:0"
        assert CUDA is not None
        assert (CUDA == None) is False  # noqa: E711

    def test_tables_and_sets(self) -> None:
        assert {NPU: "model"}[CUDA] == {CUDA: "model"}[NPU] == "model"
        assert len({CUDA, NPU, torch.device("cpu")}) == 2
        assert [NPU].index(CUDA) == 0

    def test_a_tensor_of_the_layer(self) -> None:
        tensor = torch.ones(2, device="npu")
        assert tensor.device == CUDA
        assert (tensor * 2 if tensor.device == CUDA else tensor).tolist() == [2, 2]

    def test_the_names_of_devices_stay(self) -> None:
        assert (CUDA.type, str(CUDA), repr(CUDA)) == ("cuda", "cuda:0", "device(type='cuda', index=0)")
        assert type(CUDA) is torch.device
        assert isinstance(CUDA, torch.device)
        assert typing.get_args(typing.Optional[torch.device])[0] is torch.device
        assert pickle.loads(pickle.dumps(CUDA)).type == copy.deepcopy(CUDA).type == "cuda"

    def test_devices_have_no_order(self) -> None:
        with pytest.raises(TypeError):
            CUDA < NPU  # type: ignore[operator]

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_compiled(self, backend: str) -> None:
        torch._dynamo.reset()

        @torch.compile(backend=backend, fullgraph=True)
        def step(x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.device == CUDA else x * 3

        assert step(torch.ones(1, device="npu")).item() == 2
        torch._dynamo.reset()

    def test_a_mapping_of_locations_is_still_exchanged(self) -> None:
        found = npu_location({"cuda:1": torch.device("cuda", 0)})
        assert {key: str(value) for key, value in found.items()} == {"cuda:1": "npu:0", "npu:1": "npu:0"}
        assert npu_location({"cpu": torch.device("cpu")}) is None

    def test_threads(self) -> None:
        wrong: list[int] = []

        def compare() -> None:
            wrong.extend(number for number in range(2_000) if CUDA != NPU or hash(CUDA) != hash(NPU))

        threads = [threading.Thread(target=compare) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_everything_is_as_before_after_a_revert(equal: pc.Patcher) -> None:
    hashes = {name: hash(torch.device(name)) for name in ("cpu", "meta")}
    equal.revert()
    assert CUDA != NPU
    assert {name: vars(torch.device)[name] for name in BEFORE} == BEFORE
    assert all(vars(torch.device)[name] is BEFORE[name] for name in BEFORE)
    assert hashes == {name: hash(torch.device(name)) for name in hashes}


def test_two_patchers(equal: pc.Patcher) -> None:
    with pc.Patcher([pc.Patch("equal", [EqualDevices()])], plugins=[]):
        assert CUDA == NPU
    assert CUDA == NPU


def test_a_python_with_other_types_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_devices.sysconfig, "get_config_var", lambda name: 1)
    with pc.Patcher([pc.Patch("equal", [EqualDevices()])], plugins=[]) as patcher:
        record = patcher.report().patches[0]
        assert (record.status, CUDA == NPU) == ("skipped", False)
        assert "GIL" in record.reason
