"""Roles of processes in a run: a launcher, a rank, a worker, ... The role decides which processes print and report.

Engines such as Ray start processes of their own, on any node: workers that run code of the program, and daemons that do
not. Their plugins describe them (:class:`Engine`), and the description travels with the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple, Optional

from patchcore.plugins import Plugins
from patchcore.process import process_rank, rank_variable

__all__ = [
    "LAUNCHER",
    "MAIN",
    "RANK",
    "WORKER",
    "Engine",
    "engine_of_daemon",
    "engine_of_worker",
    "is_installed",
    "is_of_an_unknown_engine",
    "present_role",
    "registered_engines",
    "take_role",
]

#: The first Python process of a run.
MAIN = "main"
#: The same, if it only starts the ranks of a job, like torchrun.
LAUNCHER = "launcher"
#: The first of a rank that a launcher such as torchrun has started.
RANK = "rank"
#: Any other: pool and DataLoader workers, programs that the others start.
WORKER = "worker"

#: Folders of installed packages.
_INSTALLED = frozenset({"site-packages", "dist-packages"})

#: Set by the first process of a rank that activates the run, for its children to see.
_LED = "PATCHCORE_LED"


class Engine(NamedTuple):
    """The processes that an engine starts for a program: Ray's, for example.

    A worker that died at its start would be started again and again, so nothing is raised there. The plugin of the
    engine calls :func:`patchcore.plugin.raise_failures` where a user sees the error. Daemons take no part in a run.

    Args:
        name: of the engine.
        workers: ends of the paths of the scripts that its workers run.
        daemons: likewise of processes that run no code of the program.

    Examples:
        >>> from patchcore.plugin import Engine
        >>> Engine("shop", ["shop/worker.py"], ["shop/dashboard.py"]).name
        'shop'
    """

    name: str
    workers: tuple[str, ...]
    daemons: tuple[str, ...] = ()


def registered_engines(plugins: Plugins) -> tuple[Engine, ...]:
    """Return the engines that plugins describe."""
    found = plugins.gather("register_engines", lambda item: isinstance(item, Engine), "Engine(name, workers, daemons)")
    return tuple(Engine(engine.name, tuple(engine.workers), tuple(engine.daemons)) for engine in found)


def engine_of_worker(engines: Iterable[Engine]) -> Optional[Engine]:
    """Return the engine that has started this process as a worker, ``None`` for any other process."""
    return next((engine for engine in engines if _runs(engine.workers)), None)


def engine_of_daemon(engines: Iterable[Engine]) -> Optional[Engine]:
    """Return the engine of which this process is a daemon, ``None`` for any other process."""
    return next((engine for engine in engines if _runs(engine.daemons)), None)


def is_of_an_unknown_engine(launcher: int) -> bool:
    """Return True if the program of this process is a script of an installed package that another process has started.

    Engines start their workers and daemons like that. A rank that the program itself starts is none of them: its end
    is noticed.

    Args:
        launcher: process id of ``patchcore run``, which has become the program's.
    """
    if os.getpid() == launcher or (rank_variable() and os.getppid() == launcher):
        return False
    return os.path.isabs(_script()) and is_installed(_script())


def is_installed(file: str) -> bool:
    """Return True if ``file`` is of an installed package."""
    return not _INSTALLED.isdisjoint(file.split(os.sep))


def _runs(scripts: tuple[str, ...]) -> bool:
    if not scripts:
        return False
    script = _script().replace(os.sep, "/")
    if script == "-m":
        module = _program().replace(".", "/")
        return f"{module}.py".endswith(scripts) or f"{module}/__main__.py".endswith(scripts)
    return script.endswith(scripts)


def _script() -> str:
    name, *_ = getattr(sys, "argv", None) or [""]
    return str(name)


def take_role(launcher: int, plugins: Plugins, *, of_engine: bool = False) -> str:
    """Return ``MAIN``, ``RANK`` or ``WORKER`` and note in the environment, for child processes, that it is taken.

    A program that a launcher starts without a rank is ``MAIN``: ``accelerate launch`` starts one process like that.

    Args:
        launcher: process id of ``patchcore run``, which has become the program's.
        plugins: of this process; they know the programs that start ranks.
        of_engine: an engine has started this process as a worker; it leads a rank or nothing.
    """
    variable = rank_variable()
    job = f"{launcher}:{variable}={process_rank()}"
    led_job, _, leader = os.environ.get(_LED, "").rpartition("@")
    leader, _, program = leader.partition("/")
    is_started_by_launcher = program == LAUNCHER and leader == str(os.getppid())
    if led_job == job and leader != str(os.getpid()) and not is_started_by_launcher:  # or it has become another program
        return WORKER
    role = RANK if variable is not None else WORKER if of_engine else MAIN
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
