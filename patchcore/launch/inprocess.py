"""Run a program in this interpreter with patches applied, and report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Optional

from patchcore.errors import PatchError, SettingsError
from patchcore.launch.program import Program
from patchcore.patcher import Patcher
from patchcore.report import Report

__all__ = ["execute", "run", "write_report"]

_OURS = os.path.dirname(__file__)


def run(patcher: Patcher, program: Program) -> int:
    """Apply the patches and run the program; they stay applied. Return the program's exit code.

    The report goes to ``report_dir`` of the Patcher's settings, its summary to stderr, there from rank 0 only.

    Raises:
        SystemExit: the program's own.
        PatchError: a patch failed under the policy ``raise``.
        SettingsError: there is no such program.
    """
    directory = patcher.settings.report_dir
    if directory is not None:
        directory = os.path.abspath(directory)  # the program may go elsewhere
    program.prepare()
    patcher.apply()
    try:
        return execute(program)
    finally:
        report = patcher.report()
        if directory is not None:
            write_report(report, directory)
        if not report.environment["rank"]:
            print(f"patchcore: {report.summary()}", file=sys.stderr)


def execute(program: Program) -> int:
    """Run the program and return its exit code; an exception is shown as the interpreter shows it, without our frames.

    Raises:
        SystemExit: the program's own.
        PatchError: a patch failed in an import under the policy ``raise``; the message says all.
        SettingsError: there is no such program.
    """
    try:
        program.run()
    except (SystemExit, PatchError):
        raise
    except BaseException as error:
        trace = _without_our_frames(error.__traceback__)
        if trace is None and isinstance(error, SettingsError):
            raise
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def write_report(report: Report, directory: str) -> None:
    """Write the report of this process as ``report-<rank>-<pid>.json``, complete or not at all.

    A directory that cannot be written to is said on stderr: a run does not fail for its report.
    """
    rank, pid = report.environment["rank"], report.environment["pid"]
    path = Path(directory, f"report-{rank}-{pid}.json")
    partial = path.with_suffix(".json.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(report.to_json(), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        print(f"patchcore: the report could not be written to {path}: {error}", file=sys.stderr)


def _without_our_frames(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_ours(filename: str) -> bool:
    return os.path.dirname(filename) == _OURS or filename.startswith(("<frozen importlib", "<frozen zipimport"))
