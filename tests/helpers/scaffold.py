"""What tests of ``patchcore new`` share: running the command, and the tests of the plugin that it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from patchcore.cli import main

ROOT = Path(__file__).resolve().parents[2]


def new(folder: Path, name: str, *arguments: str) -> Path:
    """Run the command in this process and return the folder that it wrote."""
    assert main(["new", name, "--directory", str(folder), *arguments]) == 0
    return folder / name


def python(*arguments: str, path: Sequence[Path], cwd: Path) -> str:
    """Run an interpreter with no plugin but those on ``path``, and return what it printed."""
    entries = [*map(str, path), str(ROOT), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, entries)), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def passes_its_tests(project: Path) -> bool:
    # of what is installed only what is asked for: a plugin of pytest must not decide
    printed = python("-m", "pytest", "-q", "-p", "no:cacheprovider", path=[project], cwd=project)
    return " passed" in printed and "failed" not in printed
