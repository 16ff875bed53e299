"""Facts about this process, for logs and reports."""

from __future__ import annotations

import os
import sys
from typing import Any, Optional

from patchcore.stdlib import loaded

__all__ = ["RANK_VARIABLES", "describe_process", "process_rank", "rank_variable"]

#: Where launchers put the rank of a process (torchrun, Open MPI, MPICH, Slurm), the first that is set counts.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


#: The same for the number of processes.
SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def rank_variable() -> Optional[str]:
    """Return the environment variable that says the rank of this process, ``None`` outside a job."""
    return next((name for name in RANK_VARIABLES if os.environ.get(name, "").isdigit()), None)


def process_rank() -> int:
    """Return the rank of this process in its job, 0 outside one."""
    variable = rank_variable()
    return 0 if variable is None else int(os.environ[variable])


def describe_process() -> dict[str, Any]:
    """Return interpreter, host, process id, rank, program and working directory."""
    multiprocessing = loaded("multiprocessing")
    try:
        directory = os.getcwd()
    except OSError:  # it was deleted
        directory = ""
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "host": os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", ""),
        "pid": os.getpid(),
        "rank": process_rank(),
        "ranks": next((int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdigit()), 1),
        "parent": os.getppid(),
        "program": " ".join(map(str, getattr(sys, "argv", None) or [])),
        "name": multiprocessing.process.current_process().name if multiprocessing is not None else "MainProcess",
        "directory": directory,
    }
