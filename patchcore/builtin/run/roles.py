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


def take_role(launcher: int, plugins: Plugins) -> str:
    """Return ``MAIN``, ``RANK`` or ``WORKER`` and note in the environment, for child processes, that it is taken.

    A program that a launcher starts without a rank is ``MAIN``: ``accelerate launch`` starts one process like that.

    Args:
        launcher: process id of ``patchcore run``, which has become the program's.
        plugins: of this process; they know the programs that start ranks.
    """
    variable = rank_variable()
    job = f"{launcher}:{variable}={process_rank()}"
    led_job, _, leader = os.environ.get(_LED, "").rpartition("@")
    leader, _, program = leader.partition("/")
    is_started_by_launcher = program == LAUNCHER and leader == str(os.getppid())
    if led_job == job and leader != str(os.getpid()) and not is_started_by_launcher:  # or it has become another program
        return WORKER
    role = MAIN if variable is None else RANK
    presented = present_role(role, plugins)
    os.environ[_LED] = f"{job}@{os.getpid()}{f'/{LAUNCHER}' if presented == LAUNCHER else ''}"
    return role


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
    if spec is not None:
        return str(spec.name)
    name, *_ = getattr(sys, "argv", None) or [""]
    if name == "-m":  # Python has not found the module yet
        command = _command_line()
        following = command[command.index("-m") + 1 :] if "-m" in command else []
        return following[0] if following else ""
    return os.path.basename(str(name))


def _command_line() -> list[str]:
    try:
        with open("/proc/self/cmdline", "rb") as file:  # sys.orig_argv is there since Python 3.10
            return os.fsdecode(file.read()).split("\0")
    except OSError:
        return list(getattr(sys, "orig_argv", []))
