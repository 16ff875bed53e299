"""mmcv.stream: batches of mmcv 1.x reach an NPU, as they are dealt out on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies
from mmcv.parallel import DataContainer, MMDataParallel
from mmcv.parallel._functions import Scatter
from states import same, state
from torch import Tensor, nn
from torch.utils.data import DataLoader

import patchcore as pc
from mmcv_npu.stream import STREAM
from mx_driving_compat.patcher.mmcv_patch import Stream
from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU


@pytest.fixture
def patched() -> Iterator[None]:
    with pc.Patcher([STREAM], strict=True):
        yield


def test_without_the_patch_newer_torch_refuses_the_number_of_a_device() -> None:
    with pytest.raises(AttributeError, match="'int' object has no attribute 'type'"):
        Scatter.forward([0], torch.ones(2))


def test_revert_restores_the_function() -> None:
    before = state(Scatter.__dict__["forward"])
    with pc.Patcher([STREAM], strict=True):
        assert not same(state(Scatter.__dict__["forward"]), before)
    assert same(state(Scatter.__dict__["forward"]), before)


class TestScatter:
    def test_a_tensor_goes_to_the_first_device(self, patched: None) -> None:
        (copy,) = Scatter.forward([3], torch.arange(6.0).view(2, 3).t())
        assert copy.device == torch.device("npu:3")
        assert copy.is_contiguous()
        assert copy.tolist() == [[0, 3], [1, 4], [2, 5]]

    def test_a_call_for_the_cpu_is_left_to_mmcv(self, patched: None) -> None:
        tensor = torch.ones(2)
        (same,) = Scatter.forward([-1], tensor)
        assert same is tensor

    def test_what_is_on_a_device_already_stays_there(self, patched: None) -> None:
        tensor = torch.ones(2, device="npu:1")
        (same,) = Scatter.forward([1], tensor)
        assert same is tensor

    def test_what_is_no_tensor_is_refused_with_its_type_and_what_to_do(self, patched: None) -> None:
        with pytest.raises(TypeError, match=r"found str; .*cpu_only=True"):
            Scatter.forward([0], ["a.jpg"])

    def test_programs_written_for_mx_driving_call_it_by_its_name_there(self) -> None:
        assert Stream.precheck() is True
        (copy,) = Stream.scatter_forward([3], torch.ones(2))
        assert copy.device == torch.device("npu:3")
        tensor = torch.ones(2)
        (same,) = Stream.scatter_forward([-1], tensor)
        assert same is tensor

    @hypothesis.settings(max_examples=25)
    @hypothesis.given(
        sizes=strategies.lists(strategies.lists(strategies.integers(0, 3), max_size=3), max_size=7),
        devices=strategies.lists(strategies.integers(0, 7), min_size=1, max_size=3, unique=True),
    )
    def test_lists_are_dealt_out_in_equal_runs(self, sizes: list[list[int]], devices: list[int]) -> None:
        batch = [[torch.full((size,), float(size)) for size in item] for item in sizes]
        with pc.Patcher([STREAM], strict=True):
            copies = Scatter.forward(devices, batch)
        run = -(-len(batch) // len(devices))
        assert len(copies) == len(batch)
        for index, (copied, item) in enumerate(zip(copies, batch)):
            assert {one.device for one in copied} <= {torch.device("npu", devices[index // run])}
            assert [one.tolist() for one in copied] == [one.tolist() for one in item]


class Regression(nn.Module):
    """A model as mmcv's runners train it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))

    def train_step(self, data: dict[str, Any], optimizer: Any, **options: Any) -> dict[str, Any]:
        samples = data["samples"]
        loss = (self.layers(samples) - samples[:, :2]).square().mean()
        return {"loss": loss, "log_vars": {}, "num_samples": len(samples)}


BATCHES = torch.linspace(-1, 1, 48).view(3, 4, 4)


def train(kind: str, options: dict[str, int], model: Any, batches: list[Any], folder: Any) -> list[Tensor]:
    """Train with a runner of mmcv; return the weights on the CPU."""
    from mmcv.runner import build_runner
    from mmcv.utils import get_logger

    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    settings = {"model": model, "optimizer": optimizer, "work_dir": str(folder), "logger": get_logger("quiet")}
    runner = build_runner({"type": kind, **options}, default_args={**settings, "meta": {}})
    runner.register_training_hooks(lr_config=None, optimizer_config={"grad_clip": {"max_norm": 0.5}})
    loader = DataLoader([{"samples": batch} for batch in batches], batch_size=None)
    runner.run([loader], [("train", 1)])
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("kind", "options"), [("EpochBasedRunner", {"max_epochs": 2}), ("IterBasedRunner", {"max_iters": 6})]
)
def test_runners_train_on_the_npu_as_on_the_cpu(
    patched: None, kind: str, options: dict[str, int], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # mmcv sleeps for two seconds before each epoch
    expected = train(kind, options, Regression(), list(BATCHES), tmp_path)
    containers = [DataContainer([batch], stack=True) for batch in BATCHES]
    trained = train(kind, options, MMDataParallel(Regression().to("npu"), device_ids=[0]), containers, tmp_path)
    start = list(Regression().parameters())
    for ours, theirs, initial in zip(trained, expected, start):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        assert not torch.equal(theirs, initial)


@pytest.mark.parametrize("patches", [[STREAM], [STREAM, *TRANSFER_TO_NPU]], ids=["npu", "cuda"])
@pytest.mark.parametrize("devices", [[0], [0, 1]])
def test_plain_tensors_reach_the_devices(patches: list[pc.Patch], devices: list[int]) -> None:
    device = "npu" if len(patches) == 1 else "cuda"
    layer = nn.Linear(4, 2)
    expected = layer(BATCHES[0])
    with pc.Patcher(patches, strict=True):
        model = MMDataParallel(layer.to(device), device_ids=devices)
        computed = [model(BATCHES[0]), model(BATCHES[0].to(device)), model(input=BATCHES[0])]
        if len(devices) == 1:  # train_step is for one
            trained = MMDataParallel(Regression().to(device), device_ids=devices).train_step(
                {"samples": BATCHES[0]}, None
            )
            assert trained["loss"].device == torch.device("npu", 0)
    for outputs in computed:
        assert outputs.device == torch.device("npu", 0)
        torch.testing.assert_close(outputs.cpu(), expected)
