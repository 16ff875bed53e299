"""docs/semantics.md says what the hostile tests prove."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_tables_are_what_the_marks_say() -> None:
    command = [sys.executable, "tools/semantics_tables.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"out of date: run python tools/semantics_tables.py\n{done.stderr}"
