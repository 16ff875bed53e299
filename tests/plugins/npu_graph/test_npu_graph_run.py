"""A run gives ``npu_graph`` the plugins that it has loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("npu_graph")
pytest.importorskip("torch")

VENDOR = """
import patchcore as pc
from npu_graph.vendor import Vendor

class Own(Vendor):
    name = "own"
    dtypes = frozenset(["float32"])

@pc.hookimpl
def register_vendors():
    return [Own()]
"""


def test_a_vendor_of_a_local_module(tmp_path: Path) -> None:
    (tmp_path / "own_vendor.py").write_text(VENDOR)
    (tmp_path / "program.py").write_text("from npu_graph.registry import vendors\nprint(vendors().names)\n")
    command = [sys.executable, "-m", "patchcore", "run", "-p", "own_vendor", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "'own'" in done.stdout, done.stderr
