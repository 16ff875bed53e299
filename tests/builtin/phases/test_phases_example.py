"""The example examples/phases prints what its README shows, and shows the code that is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "phases"


def test_both_phases_are_reached_where_the_readme_says() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    code = (EXAMPLE / "serving_npu" / "plugin.py").read_text(encoding="utf-8")
    output, shown = re.findall(r"```(?:python)?\n((?:server|PLATFORM).*?)```", readme, re.DOTALL)
    for part in shown.split("\n\n\n"):
        assert part.strip() in code
    command = [sys.executable, "-m", "patchcore", "run", "-p", "serving_npu.plugin", "-m", "serving"]
    environment = {**os.environ, "PATCHCORE_PLUGINS": ""}
    done = subprocess.run(command, cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout + done.stderr) == (0, output)
