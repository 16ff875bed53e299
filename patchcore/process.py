"""Facts about this process, for logs and reports."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

__all__ = ["RANK_VARIABLES", "describe_process", "process_rank"]

#: Where launchers put the rank of a process (torchrun, Open MPI, MPICH, Slurm), the first that is set counts.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def process_rank() -> int:
    """Return the rank of this process in its job, 0 outside one."""
    for variable in RANK_VARIABLES:
        value = os.environ.get(variable, "")
        if value.isdigit():
            return int(value)
    return 0


def describe_process() -> dict[str, Any]:
    """Return interpreter, host, process id, rank, program and working directory."""
    multiprocessing = sys.modules.get("multiprocessing")
    try:
        directory = os.getcwd()
    except OSError:  # it was deleted
        directory = ""
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "host": platform.node(),
        "pid": os.getpid(),
        "rank": process_rank(),
        "parent": os.getppid(),
        "program": " ".join(getattr(sys, "argv", [])),
        "name": multiprocessing.process.current_process().name if multiprocessing is not None else "MainProcess",
        "directory": directory,
    }
