"""``--strict-dtypes``: what torch_npu's documentation leaves out is refused on the emulated NPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import torch
x = torch.ones(2, 2, dtype=torch.float64)
print((x @ x).sum().item(), (x.npu() + x.npu()).sum().item(), (x.float().npu() @ x.float().npu()).sum().item())
try:
    print((x.npu() @ x.npu()).sum().item())
except RuntimeError as error:
    print(error)
"""


@pytest.mark.either_core
@pytest.mark.parametrize("strict", [True, False])
def test_a_run(strict: bool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--emulate-npu=imitation", *(["--strict-dtypes"] if strict else [])]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "patchcore", "run", *options, "program.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "NPU_EMULATOR_STRICT_DTYPES"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    allowed, refused = done.stdout.splitlines()
    assert allowed == "8.0 8.0 8.0"
    if strict:
        assert refused.startswith(
            "aten::mm does not take float64 on an NPU, by torch_npu's documentation (--strict-dtypes)"
        )
    else:
        assert refused == "8.0"
