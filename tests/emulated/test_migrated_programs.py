"""Projects that ``patchcore migrate`` has converted train on the NPU, with nothing patched, as they did before."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libcst")

from npu_migrate.migrate.project import Job, convert_files
from npu_migrate.migrate.rules import RuleTable, built_in_rules

PROJECT = {
    "__init__.py": "",
    "settings.py": 'DEVICE = "cuda:0"\n\n\ndef chosen(name=None):\n    import torch\n\n'
    "    return torch.device(name or DEVICE)\n",
    "batches.py": """
from torch.cuda import Stream, stream
import torch


class Batch:
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def cuda(self, device):
        self.images = self.images.to(device, non_blocking=True)
        self.labels = self.labels.to(device)
        return self


def batches(count):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        images = torch.randn(16, 3, 8, 8, generator=generator)
        yield Batch(images, (images.mean((1, 2, 3)) > 0).long())
""",
    "train.py": """
import torch
from torch import nn
import torch.cuda.amp as amp

from .batches import Batch, batches
from .settings import chosen


def train(path, device=None):
    device = chosen(device)
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    losses = []
    for batch in batches(6):
        batch = batch.cuda(device)
        with amp.autocast(enabled=False):
            loss = nn.functional.cross_entropy(model(batch.images), batch.labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    if device.type == "cuda":
        torch.cuda.synchronize()
        assert loss.is_cuda
    torch.save(model.state_dict(), path)
    state = torch.load(path, map_location="cuda" if device.type == "cuda" else "cpu")
    return losses, {str(value.device) for value in state.values()}
""",
}


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from; what was imported from it is forgotten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("written", "migrated")]:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> Any:
    """Write a package and import its module ``train``."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return importlib.import_module(f"{folder.name}.train")


def migrated(folder: Path) -> dict[str, str]:
    paths = sorted(folder.glob("*.py"))
    job = Job(RuleTable(built_in_rules()))
    return {
        outcome.name: outcome.path.read_text() if outcome.content is None else outcome.content.decode()
        for outcome in convert_files([(path, path.name) for path in paths], job)
    }


def test_a_project_trains_to_the_losses_that_it_had_on_the_cpu(importable: Path) -> None:
    before = write(importable / "written", PROJECT)
    on_cpu, devices = before.train(importable / "cpu.pth", "cpu")
    assert devices == {"cpu"}
    after = write(importable / "migrated", migrated(importable / "written"))
    on_npu, devices = after.train(importable / "npu.pth")
    assert devices == {"npu:0"}
    assert on_npu == pytest.approx(on_cpu, rel=1e-5)
    assert len(set(on_npu)) == len(on_npu)  # each step has changed the model
