"""``--emulate-npu`` where torch_npu is not installed: the imitation, and a report that says how to get the real one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("npu_emulator")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch_npu") is not None, reason="torch_npu is installed")

PROGRAM = "import torch; print((torch.ones(3, device='cuda') + 1).sum().item())"


def patchcore(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command of patchcore in a folder, which is expected to end with an exit code."""
    command = [sys.executable, "-m", "patchcore", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_a_run_has_the_imitation_and_its_report_says_why(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = patchcore(tmp_path, "run", "--emulate-npu", "--report-dir", "reports", "program.py")
    assert done.stdout == "6.0\n"
    assert done.stderr.rstrip().endswith("(emulated NPU: imitation)")
    lines = [line.strip() for line in patchcore(tmp_path, "report", "reports").stdout.splitlines()]
    (place,) = (number for number, line in enumerate(lines) if "an imitation of torch_npu: 8 devices" in line)
    assert "the real torch_npu " in lines[place + 1]


def test_the_reason_is_left_out_where_the_imitation_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    patchcore(tmp_path, "run", "--emulate-npu=imitation", "--report-dir", "reports", "program.py")
    report = patchcore(tmp_path, "report", "reports").stdout
    assert "an imitation of torch_npu: 8 devices" in report
    assert "the real torch_npu" not in report


def test_the_real_one_is_refused_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = patchcore(tmp_path, "run", "--emulate-npu=cann", "program.py", code=2)
    assert "expected torch_npu for torch" in done.stderr
    assert "pip install" in done.stderr


def test_pytest_says_which_and_why(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {PROGRAM.replace('cuda', 'npu')}\n")
    command = [sys.executable, "-m", "pytest", "--emulate-npu", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    assert "\nnpu: emulated by an imitation of torch_npu, 8 devices, core " in done.stdout
    assert "\nthe real torch_npu " in done.stdout
