"""Every patch of torch fits this release of torch, the oldest that the patches name to the newest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.libraries("torch")

IMPORTS = """
import importlib, sys, warnings
warnings.simplefilter("error", UserWarning)
import torch, torch_npu
for name in ("_dynamo", "_inductor.utils", "distributed.fsdp", "distributed.pipelining", "profiler", "utils.data"):
    importlib.import_module(f"torch.{name}")
"""
APPLY = """
import patchcore as pc
held = {(owner, name): value for owner in (torch, torch.Tensor, torch.cuda, torch.distributed, torch.accelerator
        if hasattr(torch, "accelerator") else torch) for name, value in vars(owner).items()}
kind, made = type(torch._C.Generator), vars(type(torch._C.Generator)).get("__call__")
patcher = pc.apply(enable=["torch.markers", "torch.markers.distributed", "torch.transfer_to_npu.apex"])
failed = [record for record in patcher.report().patches if record.status == "failed"]
assert not failed, failed
"""
PROGRAMS = {
    "no patch fails": "names = [r.name for r in patcher.report().patches if r.status == 'applied']\n"
    "assert len(names) > 15, names\n",
    "a generator of CUDA is one of the NPU": "import torch\n"
    "for arguments in (dict(device='cuda'), dict(device=torch.device('cuda', 0))):\n"
    "    try:\n"
    "        torch.Generator(**arguments)\n"
    "    except RuntimeError as error:\n"
    "        assert 'rivateUse1' in str(error) or 'npu' in str(error), error\n"
    "    else:\n"
    "        raise AssertionError('there is no NPU')\n"
    "found = torch.Generator('cpu').manual_seed(3)\n"
    "assert isinstance(found, torch.Generator) and issubclass(type(found), torch.Generator)\n"
    "assert torch.rand(2, generator=found).tolist() == torch.rand(2, generator=torch.manual_seed(3)).tolist()\n"
    "class Own(torch.Generator): pass\n"
    "assert isinstance(Own(), Own) and not isinstance(found, Own)\n",
    "a revert restores each name": "patcher.revert()\n"
    "changed = [(o, n) for (o, n), value in held.items() if vars(o).get(n) is not value]\n"
    "assert not changed, changed\n"
    "assert vars(kind).get('__call__') is made\n",
}


def run(adapter: Path, program: str) -> None:
    """Run a program whose torch_npu is in a folder; raise if it fails."""
    env = {**os.environ, "PYTHONPATH": str(adapter), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


def test_no_patch_fails(adapter: Path) -> None:
    run(adapter, IMPORTS + APPLY + PROGRAMS["no patch fails"])


def test_a_generator_of_cuda_is_one_of_the_npu(adapter: Path) -> None:
    run(adapter, IMPORTS + APPLY + PROGRAMS["a generator of CUDA is one of the NPU"])


def test_a_revert_restores_each_name(adapter: Path) -> None:
    run(adapter, IMPORTS + APPLY + PROGRAMS["a revert restores each name"])
