"""Run a script or module in this interpreter as ``python SCRIPT`` and ``python -m MODULE`` would."""

from __future__ import annotations

import importlib.machinery
import io
import os
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from patchcore.errors import PatchcoreError, SettingsError
from patchcore.report import Report

__all__ = ["execute", "prepare", "write_report"]


def prepare(program: str, arguments: Sequence[str], *, as_module: bool) -> None:
    """Set ``sys.argv`` and ``sys.path[0]`` as the interpreter does.

    Args:
        program: path of the script, or name of the module.
        arguments: the program's own.
        as_module: whether ``program`` is a module.

    Raises:
        SettingsError: the script cannot be found.
    """
    if as_module:
        sys.path[:1] = [os.getcwd()]
    else:
        path = Path(program)
        if not path.exists():
            raise SettingsError(
                f"can't find the script {program!r} in {os.getcwd()}; expected a Python file, or -m and a module's name"
            )
        # a directory or archive with a __main__.py is itself on the path
        sys.path[:1] = [str(path.resolve().parent) if path.is_file() and path.suffix != ".pyz" else str(path)]
    sys.argv = [program, *arguments]


def execute(program: str, *, as_module: bool) -> int:
    """Run the program as ``__main__`` and return its exit code; ``SystemExit`` passes through.

    An exception is shown as the interpreter shows it, without frames of ours.
    """
    try:
        if as_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        elif Path(program).is_file() and not program.endswith(".pyz"):
            _execute_file(program)
        else:
            runpy.run_path(program, run_name="__main__")
    except PatchcoreError:
        raise
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def write_report(report: Report, directory: str) -> None:
    """Write the report of this process as ``report-<rank>-<pid>.json``, complete or not at all.

    A directory that cannot be written to is said on stderr: a run does not fail for its report.
    """
    rank, pid = report.environment["rank"], report.environment["pid"]
    path = Path(directory, f"report-{rank}-{pid}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=directory, suffix=".part", delete=False, encoding="utf-8") as file:
            file.write(report.to_json())
        os.replace(file.name, path)
    except OSError as error:
        print(f"patchcore: the report could not be written to {path}: {error}", file=sys.stderr)


def _execute_file(program: str) -> None:
    with io.open_code(program) as file:
        code = compile(file.read(), program, "exec")
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=program,
        __builtins__=__builtins__,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", program),
        __package__=None,
        __spec__=None,
    )
    sys.modules["__main__"] = main  # stays, so that atexit functions and pickling find it
    exec(code, main.__dict__)


def _is_ours(filename: str) -> bool:
    return filename in (__file__, runpy.__file__) or filename.startswith("<frozen runpy")
