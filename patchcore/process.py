"""Facts about this process, for logs and reports; and what forking it needs."""

from __future__ import annotations

import importlib
import os
import sys
from _thread import get_ident
from collections.abc import Iterable
from typing import Any, Optional

from patchcore.logs import logger
from patchcore.stdlib import LATER, OWN, loaded

__all__ = [
    "MOST_RANKS",
    "PLUGIN_MODULES",
    "RANK_VARIABLES",
    "decimal",
    "describe_process",
    "end_imports",
    "process_rank",
    "rank_variable",
]

#: Where launchers put the rank of a process (torchrun, Open MPI, MPICH, Slurm), the first that has a number counts.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


#: The same for the number of processes.
SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")

#: How many ranks a job may have: torch and MPI count them in 32 bits.
MOST_RANKS = 2**31 - 1

#: Values of environment variables that are no numbers and have been logged.
_logged: set[tuple[str, str]] = set()


def decimal(text: str, most: int) -> Optional[int]:
    """Return the number that ``text`` writes in the digits 0 to 9, ``None`` for any other text and above ``most``.

    ``str.isdigit`` is true of ``²``, which ``int`` refuses, and ``int`` reads ``٣``, ``1_0`` and ``" 1"``.
    """
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= most else None


def rank_variable() -> Optional[str]:
    """Return the environment variable that says the rank of this process, ``None`` outside a job."""
    found = _first_number(RANK_VARIABLES, MOST_RANKS - 1)
    return None if found is None else found[0]


def process_rank() -> int:
    """Return the rank of this process in its job, 0 outside one."""
    found = _first_number(RANK_VARIABLES, MOST_RANKS - 1)
    return 0 if found is None else found[1]


def _first_number(variables: Iterable[str], most: int) -> Optional[tuple[str, int]]:
    """Return the first of some environment variables that has a number, and it; log those that have something else."""
    for variable in variables:
        value = os.environ.get(variable)
        if not value:
            continue
        number = decimal(value, most)
        if number is not None:
            return variable, number
        if (variable, value) not in _logged:
            _logged.add((variable, value))  # first of all: what writes the log asks for the rank
            message = "%s=%r is ignored; expected a whole number from 0 to %d"
            logger().warning(message, variable, value[:60], most)
    return None


def describe_process() -> dict[str, Any]:
    """Return interpreter, host, process id, rank, program and working directory."""
    multiprocessing = loaded("multiprocessing")
    size = _first_number(SIZE_VARIABLES, MOST_RANKS)
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
        "ranks": 1 if size is None else size[1],
        "parent": os.getppid(),
        "program": " ".join(map(str, getattr(sys, "argv", None) or [])),
        "name": multiprocessing.process.current_process().name if multiprocessing is not None else "MainProcess",
        "directory": directory,
    }


def end_imports() -> None:
    """Wait for imports of patchcore, and of what it uses, in other threads; called before the process is forked.

    Python gives a forked child the locks of modules as other threads hold them, and none of these threads. A child that
    is forked in the middle of such an import would wait for its end for ever.
    """
    names = ["patchcore"]
    while names:  # when one ends, the other thread begins another
        for name in names:
            importlib.import_module(name)
        names = [name for name, lock in list(_locks.items()) if _is_used(name) and _is_held_elsewhere(lock())]


#: The packages of installed plugins, and the modules of local ones, that were loaded or are being loaded.
PLUGIN_MODULES: set[str] = set()

#: The locks of modules that are being imported, as weak references by name.
_locks: dict[str, Any] = importlib._bootstrap._module_locks  # type: ignore[attr-defined]


#: The standard library; on Python 3.9, which does not list it, :data:`patchcore.stdlib.LATER` has to do.
_STANDARD: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())


def _is_used(name: str) -> bool:
    root = name.partition(".")[0]
    own = root in (*OWN, "packaging", "pluggy") or not PLUGIN_MODULES.isdisjoint((root, name))
    return own or root in _STANDARD or name in LATER.values()


def _is_held_elsewhere(lock: Any) -> bool:
    return getattr(lock, "owner", None) not in (None, get_ident())
