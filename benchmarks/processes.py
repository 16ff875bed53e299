"""Fresh interpreters: start one, and time it from outside or let it time itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Timing, wall

__all__ = ["Reading", "environment", "process", "read", "reported", "run", "thread_count"]

#: The patchcore that is measured is the one next to these benchmarks.
CHECKOUT = Path(__file__).resolve().parent.parent


def thread_count() -> str:
    """Return how many threads those subjects use that may use several: what ``OMP_NUM_THREADS`` says, or one."""
    return os.environ.get("OMP_NUM_THREADS") or "1"


def environment(*path: Path, alone: bool = False, threads: bool = False) -> dict[str, str]:
    """Return the environment variables of a measured interpreter: nothing in them steers patchcore or Python.

    Args:
        path: goes in front of ``PYTHONPATH``, and of this checkout.
        alone: leave out what ``PYTHONPATH`` holds now.
        threads: let it have :func:`thread_count` threads instead of one.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PATCHCORE_", "PYTHON"))}
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and not alone]
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    limits = dict.fromkeys(variables, thread_count() if threads else "1")
    # the layout of sets and dictionaries is the same in every process
    return {
        **kept,
        **limits,
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([*map(str, path), str(CHECKOUT), *inherited])),
    }


def run(arguments: Sequence[str], env: Mapping[str, str]) -> str:
    """Run this interpreter, in a folder without a pyproject.toml, and return what it printed.

    Args:
        arguments: of the interpreter.
        env: its environment variables.

    Raises:
        RuntimeError: it failed; the message has what it wrote to stderr.
    """
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=dict(env), cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr}")
    return done.stdout


def process(arguments: Sequence[str], env: Mapping[str, str]) -> Timing:
    """Return a timing of an interpreter from its start to its end."""
    return lambda: wall(lambda: run(arguments, env))


def reported(code: str, env: Mapping[str, str]) -> Timing:
    """Return a timing that a fresh interpreter takes itself: ``code`` prints the seconds last."""
    return lambda: float(run(["-c", code], env).split()[-1])


class Reading(NamedTuple):
    """What one command has cost.

    Args:
        seconds: wall time from its start to its end.
        memory: the most it has used, bytes.
        output: bytes that it printed or wrote.
    """

    seconds: float
    memory: int
    output: int


def read(arguments: list[str], env: Mapping[str, str]) -> Reading:
    """Run this interpreter and return what that has cost; the command may end with 0 or 1.

    Args:
        arguments: of the interpreter.
        env: its environment variables.

    Raises:
        RuntimeError: it failed.
    """
    with tempfile.TemporaryFile() as out:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments], env=dict(env), cwd=tempfile.gettempdir(), stdout=out, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            out.seek(0)
            raise RuntimeError(f"{arguments} exited with {process.returncode}:\n{out.read().decode()}")
        unit = 1 if sys.platform == "darwin" else 1024
        return Reading(seconds, usage.ru_maxrss * unit, out.tell())
