"""``patchcore audit``: runs a program and lists every monkey patch in it; exit 1 on conflicts, 2 without an audit."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchcore.builtin.audit.auditing import lines_of
from patchcore.builtin.audit.sections import INCOMPLETE, TITLE
from patchcore.builtin.report.reading import Process, read_reports
from patchcore.builtin.run import command as run
from patchcore.builtin.shared import examples
from patchcore.cli import EXIT_FINDINGS, EXIT_OK, EXIT_USAGE
from patchcore.cli import options as shared
from patchcore.cli.output import print_error, print_json, print_line
from patchcore.errors import SettingsError

__all__ = ["add_arguments", "audited", "main", "parse", "rows_of"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command; it takes those of ``patchcore run``, too."""
    shared.add_format(parser)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``audit``: its options, those of ``patchcore run``, and the program."""
    parser = shared.Parser(
        prog="patchcore audit",
        example=examples.AUDIT,
        usage="patchcore audit [--format json] [options of patchcore run] [--] PROGRAM [arguments]",
        description="Run a program and list every monkey patch in each of its Python processes, whoever made it: what "
        "was there and what is there now, who wrote it, which names still hold the original, and conflicts. The exit "
        "code is the program's if it fails, else 1 if there are conflicts, and 2 if no process was audited.",
        epilog="All other options are those of patchcore run. patchcore run --audit adds the same to the reports of a "
        "run.",
        allow_abbrev=False,
    )
    add_arguments(parser)
    end = arguments.index("--") if "--" in arguments else _begin_of_program(arguments)
    options: argparse.Namespace
    options, passed_on = parser.parse_known_args(arguments[:end])
    options.run = [*passed_on, *arguments[end:]]
    if not options.run:
        parser.error("expected a program to run: patchcore audit train.py, or patchcore audit -- torchrun ...")
    options.command = main
    return options


def _begin_of_program(arguments: Sequence[str]) -> int:
    """Return where the own options end: a program may have options of the same names.

    They stand in front, or among options of ``patchcore run``. Only its parser knows which of these have values, so it
    shows where the program begins.
    """
    front = 0
    while front < len(arguments) and arguments[front].startswith(("--format", "-h", "--help")):
        front += 2 if arguments[front] == "--format" else 1
    later = next((i for i, word in enumerate(arguments) if word.partition("=")[0] == "--format"), None)
    if front or later is None:
        return front
    after = arguments[later + (2 if arguments[later] == "--format" else 1) :]
    program = run.parse([*arguments[:later], *after]).program
    return len(arguments) - len(program) if len(program) <= len(after) else 0


def main(options: argparse.Namespace) -> int:
    """Run the program, and print the audit of its processes."""
    with tempfile.TemporaryDirectory(prefix="patchcore-audit-") as folder:
        code, processes = audited(options.run, Path(folder))
    if not processes:
        return code
    if options.format == "json":
        print_json({"processes": [_view(process) for process in processes], "exit_code": code})
    else:
        _print(processes)
    if code:
        print_error(f"the program ended with exit code {code}")
        return code
    return EXIT_FINDINGS if any(row["conflict"] for process in processes for row in rows_of(process)) else EXIT_OK


def audited(arguments: Sequence[str], folder: Path) -> tuple[int, list[Process]]:
    """Run a program, and return its exit code and the processes that have an audit.

    Args:
        arguments: options of ``patchcore run``, and the program.
        folder: for the reports of the processes.

    Returns:
        The exit code of the program, 2 if it is 0 and no process has an audit; and the processes.
    """
    command = [sys.executable, "-m", "patchcore", "run", "-q", "--audit", "--report-dir", str(folder), *arguments]
    process = subprocess.Popen(command)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:  # the terminal sends it to the program, too, which ends as it likes
            continue
    try:
        found = read_reports(folder).processes
    except SettingsError as error:
        if not code:
            print_error(f"no process of the program was audited: {error}")
        return code or EXIT_USAGE, []
    audits = [each for each in found if _section(each) is not None]
    others = [each for each in found if each not in audits and (each.leads or not audits)]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        print_error(f"not audited: {others[0]}{more}: it was killed, or left by os._exit or exec, before its audit")
    return code if audits else code or EXIT_USAGE, audits


def _section(process: Process) -> Any:
    return next((section for section in process.content["sections"] if section["title"] == TITLE), None)


def rows_of(process: Process) -> list[dict[str, str]]:
    """Return the findings of a process, see :meth:`Finding.to_dict`."""
    return list(_section(process)["data"])


def _incomplete(process: Process) -> list[str]:
    lines = _section(process)["lines"]
    return [line[len(INCOMPLETE) :] for line in lines if line.startswith(INCOMPLETE)]


def _view(process: Process) -> dict[str, Any]:
    return {
        "process": str(process),
        "summary": _section(process)["lines"][0],
        "incomplete": _incomplete(process),
        "findings": rows_of(process),
    }


def _print(processes: Sequence[Process]) -> None:
    """Print each audit, once for all processes that have the same."""
    groups: dict[str, list[Process]] = {}
    for process in processes:
        groups.setdefault(repr((rows_of(process), _incomplete(process))), []).append(process)
    for same in groups.values():
        if len(processes) > 1:
            print_line(", ".join(map(str, same)), style="bold")
        print_line(_section(same[0])["lines"][0])
        for text in _incomplete(same[0]):
            print_line(f"{INCOMPLETE}{text}")
        for line in lines_of(rows_of(same[0])):
            print_line(line)
