"""``patchcore run``: run a script or module with patches applied, in this process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from patchcore.cli import options as shared
from patchcore.patcher import Patcher, process_rank

__all__ = ["add_parser", "main", "parse"]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="run a script with patches applied",
        description=__doc__,
        usage="patchcore run [options] [--] SCRIPT [arguments]\n       patchcore run [options] -m MODULE [arguments]",
        epilog="options of the script come after its name and are not touched",
    )
    shared.add_selection(parser)
    parser.add_argument("--strict", action="store_true", help="a patch that fails ends the run and undoes the others")
    parser.add_argument("--report-dir", metavar="DIR", help="write this process's report there, as JSON, at exit")
    parser.add_argument("-m", dest="as_module", action="store_true", help="run a module, as python -m does")
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="what to run, and its arguments"
    )
    parser.set_defaults(command=main, parser=parser)
    return parser


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse ``run``'s arguments with the options that plugins add; which plugins, the options before those say."""
    known, _ = parser.parse_known_args(arguments)
    patcher = shared.patcher_from(known)
    for _ in patcher.plugins.each("register_run_options", parser=known.parser):
        pass
    options = parser.parse_args(arguments)
    options.patcher = patcher
    return options


def main(options: argparse.Namespace) -> int:
    """Apply the patches and run the program; return its exit code."""
    from patchcore.launch import inprocess

    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not program:
        options.parser.error("expected a script to run: patchcore run train.py, or patchcore run -m package.train")
    patcher: Patcher = options.patcher
    for _ in patcher.plugins.each("configure_run", options=options, settings=patcher.settings):
        pass
    inprocess.prepare(program[0], program[1:], as_module=options.as_module)
    patcher.apply()
    shared.report_problems(patcher)
    try:
        return inprocess.execute(program[0], as_module=options.as_module)
    finally:
        report = patcher.report()
        if patcher.settings.report_dir:
            inprocess.write_report(report, patcher.settings.report_dir)
        if not process_rank():
            print(f"patchcore: {report.summary()}", file=sys.stderr)
