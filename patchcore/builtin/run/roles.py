"""Roles of processes in a run: a launcher, a rank, a worker, ... The role decides which processes print and report."""

from __future__ import annotations

import os
import sys

from patchcore.plugins import Plugins
from patchcore.process import process_rank, rank_variable

__all__ = ["LAUNCHER", "MAIN", "RANK", "WORKER", "present_role", "take_role"]

#: The first Python process of a run.
MAIN = "main"
#: The same, if it only starts the ranks of a job, like torchrun.
LAUNCHER = "launcher"
#: The first of a rank that a launcher such as torchrun has started.
RANK = "rank"
#: Any other: pool and DataLoader workers, programs that the others start.
WORKER = "worker"

#: Set by the first process of a rank that activates the run, for its children to see.
_LED = "PATCHCORE_LED"


def take_role(launcher: int) -> str:
    """Return ``MAIN``, ``RANK`` or ``WORKER`` and note in the environment, for child processes, that it is taken.

    Args:
        launcher: process id of ``patchcore run``, which has become the program's.
    """
    variable = rank_variable()
    job = f"{launcher}:{variable}={process_rank()}"
    led_job, _, leader = os.environ.get(_LED, "").rpartition("@")
    if led_job == job and leader != str(os.getpid()):  # a process may have become another program
        return WORKER
    os.environ[_LED] = f"{job}@{os.getpid()}"
    return MAIN if variable is None else RANK


def present_role(role: str, plugins: Plugins) -> str:
    """Return the role of a process that took ``role``, once it is known which program it runs.

    Args:
        role: see :func:`take_role`.
        plugins: of this process; they know the programs that start ranks.
    """
    return LAUNCHER if role == MAIN and _program() in _rank_launchers(plugins) else role


def _rank_launchers(plugins: Plugins) -> set[str]:
    return {str(name) for _, names in plugins.collect("rank_launchers") for name in names}


def _program() -> str:
    """Return the command that this process runs, or the module after ``python -m``."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    name, *_ = getattr(sys, "argv", None) or [""]
    return os.path.basename(str(name)) if spec is None else str(spec.name)
