"""Programs in processes of their own, which they may change for good."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

INSTALL = "import npu_emulator; npu_emulator.install()\n"


def output_of(code: str, *arguments: str, **environ: str) -> str:
    """Return what a program prints that ends well.

    Args:
        code: the program.
        arguments: of the program.
        environ: variables besides those of this process.
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout
