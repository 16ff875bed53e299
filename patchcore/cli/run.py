"""``patchcore run``: run a script or module with patches applied, in this process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from patchcore.cli import options as shared
from patchcore.patcher import Patcher

__all__ = ["add_parser", "main", "parse"]

_HELP = "run a script or module with patches applied"


def add_parser(subparsers: Any) -> None:
    """Add the command to the list of commands; :func:`parse` has its options."""
    subparsers.add_parser("run", help=_HELP, add_help=False)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``run``, with the options that plugins add.

    Which plugins these are, the selection options say, which therefore come before the plugins' own.
    """
    from patchcore.launch.logs import log_to_stderr

    log_to_stderr()
    known, _ = _build_parser(add_help=False).parse_known_args(arguments)
    patcher = shared.patcher_from(known)
    log_to_stderr(patcher.settings.log)
    parser = _build_parser()
    for _ in patcher.plugins.each("register_run_options", parser=parser):
        pass
    options = parser.parse_args(arguments)
    decisive = vars(known).keys() - {"program", "as_module"}  # what the Patcher was made from
    if any(vars(options)[name] != vars(known)[name] for name in decisive):
        parser.error("the options of patchcore, but for -m, come before those that plugins add")
    if options.program[:1] == ["--"]:
        del options.program[0]
    if not options.program:
        parser.error("expected a script to run: patchcore run train.py, or patchcore run -m package.train")
    options.patcher = patcher
    options.command = main
    return options


def main(options: argparse.Namespace) -> int:
    """Apply the patches and run the program; return its exit code."""
    from patchcore.launch import inprocess
    from patchcore.launch.program import find_program

    patcher: Patcher = options.patcher
    name, *arguments = options.program
    program = find_program(name, arguments, as_module=options.as_module)
    for _ in patcher.plugins.each("configure_run", options=options, settings=patcher.settings):
        pass
    return inprocess.run(patcher, program)


def _build_parser(*, add_help: bool = True) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="patchcore run",
        usage="patchcore run [options] [--] SCRIPT [arguments]\n       patchcore run [options] -m MODULE [arguments]",
        description="Run a Python program with patches applied, in this process. Nothing in the program needs to know.",
        epilog="Options of the program come after its name and are not touched. The exit code is the program's.",
        add_help=add_help,
        allow_abbrev=False,  # an option that a plugin adds is not to be taken for one of ours
    )
    shared.add_selection(parser)
    parser.add_argument("--strict", action="store_true", help="a patch that fails ends the run and undoes the others")
    parser.add_argument("--report-dir", metavar="DIR", help="write this process's report there, as JSON, at exit")
    parser.add_argument("-m", dest="as_module", action="store_true", help="run a module, as python -m does")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT", help="what to run, and its arguments")
    return parser
