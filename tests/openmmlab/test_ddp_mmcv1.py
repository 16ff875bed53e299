"""mmcv.ddp and mmcv.ddp_forward: ranks with mmcv 1.x train as one process does on all samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from data_parallel_program import SAMPLES, Regression, run_ranks, train
from mmcv.parallel import MMDistributedDataParallel
from states import same, state
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patchcore as pc
from mmcv_npu.distributed import DDP, DDP_FORWARD
from mx_driving_compat.patcher import mmcv_patch

SIZE = 2


@pytest.mark.parametrize(
    ("backend", "arguments"), [("gloo", {"tensor"}), ("hccl", {"tensor", "container"})], ids=["gloo", "hccl"]
)
def test_ranks_train_on_their_devices_as_one_process_on_all_samples(
    backend: str, arguments: set[str], tmp_path: Path
) -> None:
    found = run_ranks(SIZE, tmp_path / "rendezvous", backend)
    expected = train(Regression(), SAMPLES, by_step=False)
    assert expected != [parameter.flatten().tolist() for parameter in Regression().parameters()]
    for rank in range(SIZE):
        assert found[rank].keys() == {f"{kind}, {way}" for kind in arguments for way in ("train_step", "forward")}
        for weights, devices in found[rank].values():
            assert devices == ([f"npu:{rank}"] if backend == "hccl" else ["cpu"])
            for ours, theirs in zip(weights, expected):
                assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[nn.Module]:
    """A model on the CPU in a group of one, in this process."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    yield MMDistributedDataParallel(Regression())
    dist.destroy_process_group()


class TestForward:
    def test_without_the_patch_it_asks_for_what_torch_has_dropped(self, model: nn.Module) -> None:
        with pytest.raises(AttributeError, match="_use_replicated_tensor_module"):
            model(SAMPLES)

    def test_a_model_that_exists_already_runs_under_the_patch(self, model: nn.Module) -> None:
        with pc.Patcher([DDP_FORWARD], strict=True):
            assert torch.equal(model(SAMPLES), Regression()(SAMPLES))

    def test_the_model_knows_that_it_runs_inside_ddp(self, model: nn.Module) -> None:
        """torch.compile cuts the graph at the buckets of the gradients by it."""
        seen = []
        model.module.register_forward_hook(lambda *_: seen.append(DistributedDataParallel._get_active_ddp_module()))
        with pc.Patcher([DDP_FORWARD], strict=True):
            model(SAMPLES)
        assert seen == [model]

    def test_programs_written_for_mx_driving_call_it_by_its_name_there(self, model: nn.Module) -> None:
        assert mmcv_patch.DDP.precheck() is True
        assert torch.equal(mmcv_patch.DDP.ddp_forward(model, SAMPLES), Regression()(SAMPLES))

    def test_older_torch_keeps_the_method_of_mmcv(self, model: nn.Module) -> None:
        model._use_replicated_tensor_module = True
        model._replicated_tensor_module = lambda samples: "the replica"
        with pc.Patcher([DDP_FORWARD], strict=True):
            assert MMDistributedDataParallel._run_ddp_forward(model, SAMPLES) == "the replica"


class TestOnTheCpu:
    def test_arguments_go_the_way_of_mmcv(self, model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mmcv.parallel.distributed.scatter_kwargs", lambda *arguments, dim: (arguments, dim))
        with pc.Patcher([DDP], strict=True):
            assert model.scatter((1,), {"a": 2}, [-1]) == (((1,), {"a": 2}, [-1]), 0)
            assert model.to_kwargs((1,), {"a": 2}, -1) == (((1,), {"a": 2}, [-1]), 0)


def test_revert_restores_the_class() -> None:
    def states() -> dict[str, tuple[Any, Any]]:
        return {name: state(value) for name, value in vars(MMDistributedDataParallel).items()}

    before = states()
    with pc.Patcher([DDP, DDP_FORWARD], strict=True):
        changed = {name for name, now in states().items() if name not in before or not same(now, before[name])}
        assert changed == {"to_kwargs", "scatter", "_run_ddp_forward"}
    assert states().keys() == before.keys()
    assert all(same(now, before[name]) for name, now in states().items())
