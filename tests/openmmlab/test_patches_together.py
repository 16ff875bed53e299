"""No two patches of this repository write one object under different names without an order.

Names can be aliases, ``torch.distributed.send`` and ``torch.distributed.distributed_c10d.send``: no plan can know that,
as it imports nothing. Here everything is imported, and then applied at once.
"""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import running
from own_patches import EXCLUSIVE, REQUESTS, collect

import patchcore as pc
from patchcore.declare.changes import SlotChange
from patchcore.declare.slots import find_slot
from patchcore.objects.modules import ABSENT
from patchcore.planning.candidates import Candidate


def written_objects(patch: pc.Patch) -> Iterator[tuple[str, Any]]:
    """Yield the functions, classes and other objects that a patch replaces or wraps, with their targets."""
    for change in patch.changes:
        target = change.target.pin()
        if not isinstance(change, SlotChange) or not change.claims(target):
            continue
        try:
            found = find_slot(target, importlib.import_module(target.module), may_be_absent=True).read()
        except Exception:  # of another version, or of a library that is not installed
            continue
        if found is not ABSENT and found is not None and not isinstance(found, (str, int, float, tuple)):
            yield str(target), found


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    """Every patch, with all that options add; nothing is applied. A step that a user names replaces the loops."""
    by_loops = collect([request for request in REQUESTS if request != "step"])
    known = {candidate.patch.name for candidate in by_loops}
    return by_loops + [candidate for candidate in collect(["step"]) if candidate.patch.name not in known]


def test_every_object_is_written_by_patches_that_know_of_one_another(candidates: list[Candidate]) -> None:
    writers: dict[int, list[tuple[pc.Patch, str, Any]]] = {}
    for candidate in candidates:
        for target, found in written_objects(candidate.patch):
            writers.setdefault(id(found), []).append((candidate.patch, target, found))
    assert len(writers) > 200
    clashes = {
        (one.name, first, other.name, second)
        for listed in writers.values()
        for (one, first, _), (other, second, _) in itertools.combinations(listed, 2)
        if one is not other and not one.stacks_with(other) and frozenset([one.name, other.name]) not in EXCLUSIVE
    }
    assert not clashes


PROGRAM = """
import torch, torch.distributed, torch.nn.parallel, torch.distributed.fsdp, torch.distributed.pipelining
import torch._dynamo, torch.optim, numpy
import mmcv.ops, mmcv.cnn, mmdet.models, mmdet3d.models, mmdet3d.datasets
import collections

layer = torch.nn.Linear(2, 2).cuda()
layer(torch.ones(1, 2).cuda()).sum().backward()
print(next(layer.parameters()).grad.device)
"""


def test_all_of_them_are_applied_together(tmp_path: Path) -> None:
    """Under --strict the first conflict ends the run."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    enabled = ["--enable", "mmcv", "--enable", "mmdet3d", "--enable", "torch_npu"]
    options = ["--strict", *enabled, "--profile", str(tmp_path / "records"), "--brake", "1000", "--count"]
    options += [running.OPTION, "--markers", "trace", "--markers-directory", str(tmp_path / "markers")]
    command = [sys.executable, "-m", "patchcore", "run", *options, str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, running.without_note(done.stdout)) == (0, "npu:0\n"), done.stderr
    assert " failed" not in done.stderr.splitlines()[-1]
