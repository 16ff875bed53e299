"""Roles: what a process is in its run, which decides who speaks for it."""

from __future__ import annotations

import os
import sys

from patchcore.process import process_rank, rank_variable

__all__ = ["MAIN", "RANK", "WORKER", "starts_ranks", "take_role"]

#: The first Python process of a run.
MAIN = "main"
#: The first of a rank that a launcher such as torchrun has started.
RANK = "rank"
#: Any other: pool and DataLoader workers, programs that the others start.
WORKER = "worker"

#: Set by the first process that wakes up, to its rank, for its children to see.
_LED = "PATCHCORE_LED"

#: Programs that start the ranks of a job and do none of its work: their own summary would say nothing about it.
_RANK_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "msrun")


def take_role(launcher: int) -> str:
    """Return ``MAIN``, ``RANK`` or ``WORKER`` and note in the environment, for child processes, that it is taken.

    Args:
        launcher: process id of ``patchcore run``, which has become the program's.
    """
    ranked = rank_variable() is not None
    mark = f"{launcher}:{process_rank() if ranked else ''}"
    led, os.environ[_LED] = os.environ.get(_LED), mark
    if led == mark:
        return WORKER
    return RANK if ranked else MAIN


def starts_ranks() -> bool:
    """Tell whether this program is known to start the ranks of a job, as far as it has come: like torchrun."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    program = os.path.basename(sys.argv[0]) if spec is None else spec.name  # of a script, or after python -m
    return program in _RANK_LAUNCHERS
