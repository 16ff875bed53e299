"""The brake with the real torch: what counts as a step of a loop nobody has named, and how programs end."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import RUN, TORCHRUN, Job, Workplace

import patchcore as pc
from patchcore_torch.training import steps
from patchcore_torch.training.brake import Braked

torch = pytest.importorskip("torch")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[steps.Steps]:
    """Steps of this process count from 0, by optimizers."""
    fresh = steps.Steps()
    monkeypatch.setattr(steps, "STEPS", fresh)
    monkeypatch.setattr("patchcore_torch.training.optimizers.STEPS", fresh)
    with pc.Patcher().with_settings(brake=1_000_000):
        yield fresh


class Net:
    """A model of one layer with what a training step needs."""

    def __init__(self) -> None:
        self.layer = torch.nn.Linear(2, 2)

    def loss(self, factor: float = 1.0) -> Any:
        return self.layer(torch.ones(1, 2)).pow(2).sum() * factor

    def backward(self) -> Any:
        self.layer.zero_grad()
        loss = self.loss()
        loss.backward()
        return loss


class Clipped(torch.optim.SGD):
    """Overrides ``step``, as users do, and calls its base class's."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class TestOptimizers:
    @pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW, Clipped], ids=lambda make: make.__name__)
    def test_every_class_counts_once_a_step(self, counted: steps.Steps, make: Callable[..., Any]) -> None:
        net = Net()
        base = torch.optim.SGD(net.layer.parameters(), lr=0.1)  # from now on SGD.step is hooked
        optimizer = make(net.layer.parameters(), lr=0.1)
        for _ in range(5):
            net.backward()
            optimizer.step()
        assert counted.finished == 5
        del base

    def test_lbfgs_counts_its_steps_and_not_those_of_its_closure(self, counted: steps.Steps) -> None:
        net = Net()
        calls = []
        optimizer = torch.optim.LBFGS(net.layer.parameters(), max_iter=4)
        for _ in range(3):
            optimizer.step(lambda: calls.append(1) or net.backward())
        assert counted.finished == 3
        assert len(calls) > 3

    def test_a_step_that_the_scaler_skips_is_none(self, counted: steps.Steps) -> None:
        net = Net()
        optimizer = torch.optim.SGD(net.layer.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for factor in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(net.loss(factor)).backward()
            scaler.step(optimizer)
            scaler.update()
        assert counted.finished == 2

    def test_optimizers_that_step_in_the_backward_pass_make_one_step_together(self, counted: steps.Steps) -> None:
        net = Net()
        for parameter in net.layer.parameters():
            optimizer = torch.optim.SGD([parameter], lr=0.1)
            parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
        for _ in range(3):
            net.backward()
        assert counted.finished == 3
        with pc.Patcher().with_settings(brake=1), pytest.raises(Braked):
            net.backward()

    def test_a_compiled_step_counts(self, counted: steps.Steps) -> None:
        net = Net()
        optimizer = torch.optim.SGD(net.layer.parameters(), lr=0.1)

        @torch.compile(backend="eager")
        def step() -> None:
            optimizer.step()

        for _ in range(3):
            net.backward()
            step()
        torch._dynamo.reset()
        assert counted.finished == 3

    def test_what_was_made_before_the_brake_is_braked_and_nothing_stays(self) -> None:
        net = Net()
        optimizer = torch.optim.SGD(net.layer.parameters(), lr=0.1)
        net.backward()
        hooks = importlib.import_module("torch.optim.optimizer")._global_optimizer_post_hooks
        before = dict(hooks)
        with pc.Patcher().with_settings(brake=2):
            optimizer.step()
            with pytest.raises(Braked):
                optimizer.step()
        assert dict(hooks) == before
        optimizer.step()


PLAIN = """
import sys
import torch
from torch.utils.data import DataLoader

def main():
    loader = DataLoader([torch.ones(2)] * 8, batch_size=2, num_workers=2, persistent_workers=True)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for epoch in range(5):
            for data in loader:
                optimizer.zero_grad()
                model(data).sum().backward()
                optimizer.step()
                print("step", flush=True)
    finally:
        print("cleaned up", flush=True)

if __name__ == "__main__":
    main()
"""
SPAWNS = """
import os
import torch
import torch.multiprocessing as mp
import torch.distributed as dist

def train(rank):
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(20):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    print("never", rank)

if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
    print("main goes on")
"""
RANKS = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = 0
try:
    for i in range(20):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        steps = i + 1
finally:
    # whole, whether Python buffers or not: the ranks share a pipe
    os.write(1, f"rank {dist.get_rank()} steps {steps}\\n".encode())
print("never")
"""


class TestPrograms:
    @pytest.fixture
    def place(self, tmp_path: Path) -> Workplace:
        return Workplace(tmp_path, {"plain.py": PLAIN, "spawns.py": SPAWNS, "ranks.py": RANKS})

    def only_ours(self, job: Job) -> None:
        """Nothing but patchcore says anything: no traceback, no complaint of torch about what was left open."""
        assert job.err.splitlines() == job.ours, job.err

    def test_a_plain_loop_with_persistent_workers(self, place: Workplace) -> None:
        job = place.run(*RUN, "--brake", "6", "plain.py")
        assert job.out.split("\n") == [*["step"] * 5, "cleaned up", ""]  # the sixth ends in optimizer.step
        self.only_ours(job)
        assert "patchcore: brake: the program ends after training step 6" in job.err
        assert all(report["finished"] for report in job.reports if report["role"] == "main")

    def test_two_ranks_of_torchrun(self, place: Workplace) -> None:
        job = place.run(*RUN, "--brake", "4", "--", *TORCHRUN, "ranks.py")
        assert sorted(job.out.splitlines()) == ["rank 0 steps 3", "rank 1 steps 3"]
        self.only_ours(job)
        assert job.err.count("the program ends after training step 4") == 1

    def test_processes_of_mp_spawn(self, place: Workplace) -> None:
        job = place.run(*RUN, "--brake", "4", "spawns.py")
        assert job.out == "main goes on\n"
        self.only_ours(job)


MMENGINE = """
import sys
import torch
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch.utils.data import DataLoader

class Model(BaseModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, data, mode="loss"):
        result = self.layer(data).sum()
        return {"loss": result} if mode == "loss" else [result]

class Metric(BaseMetric):
    def process(self, data_batch, data_samples): pass
    def compute_metrics(self, results): return {"validated": 1}

def loader():
    return DataLoader([(torch.ones(2),)] * 8, batch_size=2, num_workers=1, persistent_workers=True,
                      collate_fn=lambda rows: {"data": torch.stack([row[0] for row in rows])})

if __name__ == "__main__":
    loops = {"epoch": dict(by_epoch=True, max_epochs=9, val_interval=1),
             "iter": dict(by_epoch=False, max_iters=50, val_interval=4)}
    runner = Runner(Model(), "work", train_dataloader=loader(), train_cfg=loops[sys.argv[1]],
        val_dataloader=loader(), val_cfg={}, val_evaluator=[Metric()],
        optim_wrapper=dict(optimizer=dict(type="SGD", lr=0.1), accumulative_counts=2),
        default_hooks=dict(checkpoint=None), log_level="ERROR")
    try:
        runner.train()
    finally:
        print("iterations", runner.iter)
"""


class TestMMEngine:
    @pytest.mark.parametrize("loop", ["epoch", "iter"])
    def test_iterations_count_and_neither_updates_nor_validation(self, tmp_path: Path, loop: str) -> None:
        pytest.importorskip("mmengine")
        place = Workplace(tmp_path, {"mm.py": MMENGINE}, plugins="mmcv")
        job = place.run(*RUN, "--brake", "7", "mm.py", loop)
        assert job.out.splitlines()[-1] == "iterations 7"
        assert "patchcore: brake: the program ends after training step 7" in job.err
        assert "Traceback" not in job.err
