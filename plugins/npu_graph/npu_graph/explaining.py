"""Runs a program in this process and records how its graphs were compiled."""

from __future__ import annotations

import contextlib
import importlib.util
import runpy
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Optional

import patchcore as pc
from npu_graph.backend import Backend
from npu_graph.recording import GraphRecord, records
from patchcore import SettingsError

__all__ = ["Explanation", "GraphBreak", "Recompilation", "explain_program"]

_FAILED, _INTERRUPTED = 1, 130


@dataclass(frozen=True)
class GraphBreak:
    """A line where dynamo ends a graph and leaves the rest to Python.

    Args:
        where: ``/home/me/train.py:12``, empty where it is not known.
        function: that the line is in.
        reason: in one line.
        details: of dynamo: an explanation, hints.
        count: how often.
    """

    where: str
    function: str
    reason: str
    details: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Recompilation:
    """A function that was compiled again.

    Args:
        where: its first line, ``/home/me/train.py:10``.
        function: its name.
        compilation: dynamo's number for it: ``0/1`` is the second one of the first function.
        reason: the guard that failed.
    """

    where: str
    function: str
    compilation: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """The outcome of each graph of a program.

    Args:
        graphs: those that were compiled for vendors.
        breaks: of graphs.
        recompilations: in order.
        code: the program's exit code; 1 where it raised, 130 where it was interrupted.
        ended_by: the exception that ended it, in a line; empty without one.
    """

    graphs: tuple[GraphRecord, ...]
    breaks: tuple[GraphBreak, ...]
    recompilations: tuple[Recompilation, ...]
    code: int
    ended_by: str = ""


def explain_program(
    program: str, arguments: Sequence[str], *, as_module: bool = False, vendor: Optional[str] = None
) -> Explanation:
    """Run a program as Python would, and return how its graphs were compiled, however it ends.

    Its output goes to stderr.

    Args:
        program: path of a script, or the name of a module.
        arguments: of the program.
        as_module: it is a module, as after ``python -m``.
        vendor: for graphs that the program compiles without naming a backend.

    Raises:
        SettingsError: there is no such script.
    """
    if not as_module and not Path(program).is_file():
        raise SettingsError(f"there is no script {program}; a module is explained with -m")
    if importlib.util.find_spec("torch") is None:
        raise SettingsError(f"compiling needs torch, which is not installed: {pc.install_command('npu-graph[torch]')}")
    from npu_graph.private_torch import utils

    utils.set_compilation_metrics_limit(_ALL)  # the last 64 by default
    before, breaks, compilations = len(records()), len(utils.graph_break_reasons), len(utils.get_compilation_metrics())
    with _default_backend(vendor), contextlib.redirect_stdout(sys.stderr):
        code, ended_by = _run(program, arguments, as_module)
    return Explanation(
        records()[before:],
        _breaks(utils.graph_break_reasons[breaks:]),
        _recompilations(utils.get_compilation_metrics()[compilations:]),
        code,
        ended_by,
    )


_ALL = 1_000_000


def _run(program: str, arguments: Sequence[str], as_module: bool) -> tuple[int, str]:
    """Run it; return its exit code, and the exception that ended it."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path.cwd() if as_module else Path(program).resolve().parent))
    try:
        if as_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0, ""
        print(error.code, file=sys.stderr)  # as Python does
        return _FAILED, ""
    except KeyboardInterrupt:
        return _INTERRUPTED, "KeyboardInterrupt"
    except Exception as error:
        traceback.print_exception(type(error), error, _of_program(error.__traceback__))
        return _FAILED, traceback.format_exception_only(type(error), error)[-1].strip().partition("\n")[0]
    finally:
        sys.argv, sys.path[:] = argv, path
    return 0, ""


def _of_program(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """Leave out how the program was started."""
    own = trace
    while own is not None and own.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        own = own.tb_next
    return own or trace


@contextlib.contextmanager
def _default_backend(vendor: Optional[str]) -> Iterator[None]:
    if vendor is None:
        yield
        return
    from npu_graph.private_torch import registry

    before = registry.get_default_backend()
    registry.set_default_backend(Backend(vendor))
    try:
        yield
    finally:
        registry.set_default_backend(before)


def _breaks(reasons: Sequence[Any]) -> tuple[GraphBreak, ...]:
    found: Counter[tuple[str, str, str, tuple[str, ...]]] = Counter()
    for each in reasons:
        reason, *more = map(str.strip, str(each.reason).splitlines())
        details = tuple(line for line in more if line.startswith(("Explanation:", "Hint:")))
        place = each.user_stack[-1] if each.user_stack else None
        where = f"{place.filename}:{place.lineno}" if place else ""
        found[where, place.name if place else "", reason, details] += 1
    return tuple(GraphBreak(*key, count) for key, count in found.items())


def _recompilations(compilations: Sequence[Any]) -> tuple[Recompilation, ...]:
    return tuple(
        Recompilation(
            f"{each.co_filename}:{each.co_firstlineno}",
            str(each.co_name),
            str(each.compile_id),
            _guard(str(each.recompile_reason)),
        )
        for each in compilations
        if each.recompile_reason
    )


def _guard(reason: str) -> str:
    """The guard alone: without the compilation that it is of, and without the stack."""
    first = reason.partition("\n")[0]
    return first.partition(": ")[2].partition("  #")[0].strip() or first
