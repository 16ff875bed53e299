"""Facts about this process: its rank and program, for logs and reports, and the modules that its threads import."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from threading import get_ident
from typing import Any, NamedTuple, Optional

from patchcore.logs import logger
from patchcore.stdlib import LATER, OWN, loaded

__all__ = [
    "IMPORT_LOCKS",
    "MOST_RANKS",
    "PLUGIN_MODULES",
    "RANK_VARIABLES",
    "Made",
    "ModuleLock",
    "caller",
    "describe_process",
    "end_imports",
    "import_lock",
    "imported_elsewhere",
    "importer_of",
    "parse_decimal",
    "process_rank",
    "rank_variable",
]


class Made(NamedTuple):
    """Where the program, or a plugin, has made a Patcher.

    Args:
        place: file and line.
        module: the name of the module, empty if it has none.
    """

    place: str
    module: str


def caller() -> Made:
    """Return the place of the nearest caller that is not patchcore's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in (*OWN, "importlib"):
        frame = frame.f_back
    return Made(f"{frame.f_code.co_filename}:{frame.f_lineno}", str(frame.f_globals.get("__name__") or ""))


#: Where launchers put the rank of a process (torchrun, Open MPI, MPICH, Slurm), the first that has a number counts.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


#: The same for the number of processes.
SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")

#: How many ranks a job may have: torch and MPI count them in 32 bits.
MOST_RANKS = 2**31 - 1

#: Values of environment variables that are no numbers and have been logged.
_logged: set[tuple[str, str]] = set()


def parse_decimal(text: str, most: int) -> Optional[int]:
    """Return the number that ``text`` writes in the digits 0 to 9, ``None`` for any other text and above ``most``.

    ``str.isdigit`` is true of ``²``, which ``int`` refuses, and ``int`` reads ``٣``, ``1_0`` and ``" 1"``.

    Examples:
        >>> from patchcore.plugin import parse_decimal
        >>> parse_decimal("12", 100), parse_decimal("-1", 100), parse_decimal("101", 100)
        (12, None, None)
    """
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= most else None


def rank_variable() -> Optional[str]:
    """Return the environment variable that holds the rank of this process, ``None`` outside a job.

    Examples:
        >>> from patchcore.plugin import rank_variable
        >>> print(rank_variable())  # outside a job
        None
    """
    found = _first_number(RANK_VARIABLES, MOST_RANKS - 1)
    return None if found is None else found[0]


def process_rank() -> int:
    """Return the rank of this process in its job, 0 outside one.

    Examples:
        >>> from patchcore.plugin import process_rank
        >>> process_rank() >= 0
        True
    """
    found = _first_number(RANK_VARIABLES, MOST_RANKS - 1)
    return 0 if found is None else found[1]


def _first_number(variables: Iterable[str], most: int) -> Optional[tuple[str, int]]:
    """Return the first of some environment variables that has a number, and it; log those that have something else."""
    for variable in variables:
        value = os.environ.get(variable)
        if not value:
            continue
        number = parse_decimal(value, most)
        if number is not None:
            return variable, number
        if (variable, value) not in _logged:
            _logged.add((variable, value))  # before the log call, whose handler asks for the rank again
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


#: By name, weak references to the locks of modules that are being imported (importlib._bootstrap, CPython 3.4 to 3.14).
IMPORT_LOCKS: dict[str, Any] = importlib._bootstrap._module_locks  # type: ignore[attr-defined]
#: The type of these locks.
ModuleLock: Any = importlib._bootstrap._ModuleLock  # type: ignore[attr-defined]

#: The packages of installed plugins, and the modules of local ones, that were loaded or are being loaded.
PLUGIN_MODULES: set[str] = set()

#: The standard library; on Python 3.9, which does not list it, :data:`patchcore.stdlib.LATER` is used instead.
_STANDARD: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())


def import_lock(name: str) -> Any:
    """Return the lock of module ``name``, ``None`` if no thread is importing it."""
    reference = IMPORT_LOCKS.get(name)
    lock = reference() if reference is not None else None
    return lock if isinstance(lock, ModuleLock) else None


def importer_of(name: str) -> Optional[int]:
    """Return the thread that is importing module ``name``, ``None`` for none.

    That thread holds the lock of the module from before the first finder is called until the module is executed.
    """
    lock = import_lock(name)
    return lock.owner if lock is not None else None


def imported_elsewhere() -> list[str]:
    """Return the names of the modules that other threads are importing."""
    return [name for name in list(IMPORT_LOCKS) if importer_of(name) not in (None, get_ident())]


def end_imports() -> None:
    """Wait until other threads have imported patchcore and the modules it uses; called before the process is forked.

    A forked child gets the locks of modules in the state in which other threads hold them, but not those threads. If
    the process were forked during such an import, the child would wait for ever.
    """
    names = ["patchcore"]
    while names:  # when one import ends, the other thread may begin another
        for name in names:
            importlib.import_module(name)
        names = [name for name in imported_elsewhere() if _is_used(name)]


def _is_used(name: str) -> bool:
    """True if patchcore or one of its plugins may import module ``name``."""
    root = name.partition(".")[0]
    own = root in (*OWN, "packaging", "pluggy") or not PLUGIN_MODULES.isdisjoint((root, name))
    return own or root in _STANDARD or name in LATER.values()
