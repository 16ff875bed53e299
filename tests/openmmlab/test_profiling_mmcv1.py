"""Profiling and brake in the runners of mmcv 1.x, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.openmmlab(1)

TRAIN = """
import logging
import sys
import torch
from torch.utils.data import DataLoader
from mmcv.runner import EpochBasedRunner, IterBasedRunner

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def train_step(self, data, optimizer, **kwargs):
        return {"loss": self.layer(data).sum(), "num_samples": len(data)}

    def val_step(self, data, optimizer=None, **kwargs):
        return self.train_step(data, optimizer)

updates = 0

class SGD(torch.optim.SGD):
    def step(self, closure=None):
        global updates
        updates += 1
        return super().step(closure)

def main(kind):
    model = Model()
    kinds = {"epoch": (EpochBasedRunner, dict(max_epochs=9), 1), "iter": (IterBasedRunner, dict(max_iters=90), 3)}
    make, length, mode = kinds[kind]
    runner = make(model, optimizer=SGD(model.parameters(), 0.1), work_dir="work", logger=logging.getLogger(), **length)
    runner.register_training_hooks(dict(policy="step", step=[100]), optimizer_config={})
    loader = DataLoader([torch.ones(2)] * 8, batch_size=2, num_workers=1, persistent_workers=True)
    try:
        runner.run([loader, loader], [("train", mode), ("val", mode)])
    finally:
        print("updates", updates)

if __name__ == "__main__":
    main(sys.argv[1])
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in ``folder`` under ``patchcore run``; mmcv 1.x imports torchvision, which is not installed."""
    for name in ("torchvision/__init__.py", "torchvision/models.py", "torchvision/transforms.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (folder / "train.py").write_text(TRAIN)
    done = subprocess.run(
        [sys.executable, "-m", "patchcore", "run", *arguments],
        cwd=folder,
        env={**os.environ, "PATCHCORE_PLUGINS": "mmcv", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("kind", ["epoch", "iter"])
def test_the_brake_ends_after_an_iteration_and_its_update(tmp_path: Path, kind: str) -> None:
    done = run(tmp_path, "--brake", "7", "train.py", kind)
    assert done.stdout.splitlines()[-1] == "updates 7"
    assert "patchcore: brake: the program ends after training step 7" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["epoch", "iter"])
def test_a_trace_holds_one_iteration(tmp_path: Path, kind: str) -> None:
    done = run(tmp_path, "--profile", "records", "--profile-skip-first", "5", "--brake", "auto", "train.py", kind)
    assert done.stdout.splitlines()[-1] == "updates 6"
    (trace,) = (tmp_path / "records").glob("*.6.pt.trace.json")
    names = [event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]]
    assert names.count("Optimizer.step#SGD.step") == 1
    assert names.count("aten::linear") == 1
