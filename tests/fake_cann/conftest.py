"""Tests of the real torch_npu on the fake CANN: each program has a process of its own.

torch loads torch_npu in every process that imports torch, so these tests have an environment of their own:
``nox -s cann``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Callable

import pytest

HERE = Path(__file__).resolve().parent
RunOnCann = Callable[..., "subprocess.CompletedProcess[str]"]


def is_real(name: str) -> bool:
    """Tell whether a library is installed, and not one that the emulator provides."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None and "npu_emulator" not in spec.origin


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder where the wheel is not installed."""
    if is_real("torch_npu") and is_real("fake_cann"):
        return
    skip = pytest.mark.skip(reason="needs the real torch_npu: python -m nox -s cann")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def on_cann(tmp_path_factory: pytest.TempPathFactory) -> RunOnCann:
    """Return what runs a program on the fake CANN, given as its text or as a file of this folder with arguments."""
    folder = tmp_path_factory.mktemp("programs")

    def run(
        program: str, *arguments: str, options: tuple[str, ...] = (), code: int = 0, timeout: float = 300, **env: str
    ) -> subprocess.CompletedProcess[str]:
        if program.endswith(".py"):
            file = HERE / program
        else:
            file = folder / f"program{len(list(folder.iterdir()))}.py"
            file.write_text(textwrap.dedent(program), encoding="utf-8")
        command = [sys.executable, "-m", "fake_cann", "run", *options, str(file), *arguments]
        environ = {**os.environ, "OMP_NUM_THREADS": "1", **env}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environ, cwd=folder, check=False
        )
        # torch_npu prints this on stdout in every process.
        lines = done.stdout.splitlines(keepends=True)
        done.stdout = "".join(line for line in lines if "ASCEND_HOME_PATH environment variable is not set" not in line)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done

    return run
