"""``patchcore run``: start a program whose every Python process is patched, in the place of this one."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, Optional

from patchcore.builtin import command_line, examples
from patchcore.builtin.run.compat import chosen_compat
from patchcore.builtin.run.verbosity import QUIET
from patchcore.cli import options as shared
from patchcore.errors import PatchcoreError, PatchError, SettingsError
from patchcore.patcher import Patcher
from patchcore.plugins import Plugins
from patchcore.report import FAILED

__all__ = ["add_arguments", "main", "options_of_run", "parse", "parse_options"]

logger = logging.getLogger("patchcore")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``run``, with the options that plugins add; the order of the options is free."""
    from patchcore.builtin.run.logs import level_of, log_to_stderr

    patcher, parser, project = _settle(arguments)
    log_to_stderr(level_of(patcher.settings))
    for problem in patcher.plugins.problems:  # now that it is certain which plugins are loaded
        logger.warning("%s\n%s", problem, problem.traceback)
    command_line.advise_on_modules(patcher, (problem.message for problem in patcher.plugins.problems))
    chosen_compat(patcher.settings, patcher.plugins)  # refuses unknown names before anything is started
    parser.add_argument("-h", "--help", action="help", help="show this help message and exit")
    options = command_line.parse(parser, arguments, patcher)
    if options.program[:1] == ["--"]:
        del options.program[0]
    if not options.program:
        parser.error(
            "expected a program to run: patchcore run train.py, patchcore run -m package.train, "
            "or patchcore run -- torchrun ..."
        )
    options.patcher, options.project = patcher, project
    # the program's own are nobody else's business, and there may be many
    options.arguments = arguments[: len(arguments) - len(options.program)]
    options.command = main
    return options


def _settle(arguments: Sequence[str]) -> tuple[Patcher, shared.Parser, Optional[Path]]:
    """Return the Patcher that the arguments describe, the parser with its plugins' options, and the script's folder.

    Plugins add options, and options choose plugins: only with a plugin's option ``--markers trace`` is it certain that
    ``trace`` is not the program, and that ``-p MODULE`` behind it is an option of patchcore. So the arguments are
    parsed again until they choose the plugins that they were parsed with, and the settings of these plugins are set.
    """
    base = _build_parser(Plugins(discover=False), add_help=False)
    options, _ = base.parse_known_args(arguments)
    known = vars(options).keys() - {"program"}
    patcher, project = _load(options, arguments)
    tried: list[dict[str, Any]] = []
    while True:
        parser = _build_parser(patcher.plugins, add_help=False)
        tried.append(_decisive(options, known))
        options, unknown = _parse_as_far_as_known(parser, arguments)
        if _decisive(options, known) in tried:
            return patcher, parser, project
        try:
            patcher, project = _load(options, arguments)
        except PatchcoreError:
            if unknown:  # what was taken for an option may be none: better to complain about the unknown one
                return patcher, parser, project
            raise


def _decisive(options: argparse.Namespace, known: Container[str]) -> dict[str, Any]:
    """Return the options that decide on plugins and settings: those of patchcore, and those that set a setting."""
    given = ((name, value) for name, value in vars(options).items() if value is not None)
    return {name: value for name, value in given if name in known or name.startswith(shared.SETTING)}


def _load(options: argparse.Namespace, arguments: Sequence[str]) -> tuple[Patcher, Optional[Path]]:
    project = None if options.as_module else _project(arguments)
    patcher = shared.patcher_from(options, start=project)
    settings = patcher.settings
    left_out = {provenance.plugin for provenance in patcher.plugins.denied}.intersection(settings.get("compat"))
    if left_out:  # --plugin chooses patches; an interface that is asked for by name is wanted whatever it chooses
        allowed = (*(settings.plugins or ()), *sorted(left_out))
        patcher = Patcher.discover(settings=settings._replace(plugins=allowed))
    return patcher, project


def _parse_as_far_as_known(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> tuple[argparse.Namespace, list[str]]:
    """Parse arguments past options that are not known, taking what follows one for its value; return those, too."""
    rest, passed = list(arguments), list[str]()
    while True:
        options, unknown = parser.parse_known_args(rest)
        if not unknown or not set(rest).issuperset(unknown):
            return options, [*passed, *unknown]
        for option in unknown:
            start = rest.index(option)
            may_have_value = "=" not in option and option not in ("-h", "--help")
            follows = may_have_value and start + 1 < len(rest) and not rest[start + 1].startswith("-")
            del rest[start : start + 1 + follows]
        passed += unknown


def parse_options(arguments: Sequence[str], plugins: Plugins) -> argparse.Namespace:
    """Return the options of ``patchcore run`` as a process of the run needs them.

    Args:
        arguments: those that were given to ``run``, without the program.
        plugins: may have added options; of plugins that are missing here they are passed over.

    Raises:
        SettingsError: the arguments mean something else to the plugins of this process.
    """
    try:
        options: argparse.Namespace
        options, _ = _build_parser(plugins, program=False).parse_known_args(arguments)
        return options
    except SystemExit as error:  # argparse has said why
        raise SettingsError(f"the options of patchcore run cannot be parsed here: {' '.join(arguments)}") from error


def options_of_run(plugins: Plugins) -> frozenset[str]:
    """Return the options of ``patchcore run``, with their dashes, that ``plugins`` add too."""
    return frozenset(_build_parser(plugins, program=False, add_help=False)._option_string_actions)


def main(options: argparse.Namespace) -> None:
    """Start the program in the place of this process.

    Raises:
        SettingsError: there is no such program, or it cannot be started.
        PatchError: a patch cannot be applied, under the policy ``raise``; the lock file says something else.
    """
    from patchcore.builtin.run.command import find_command
    from patchcore.builtin.run.session import Session

    patcher: Patcher = options.patcher
    name, *arguments = options.program
    try:
        command = find_command(name, arguments, as_module=options.as_module)
    except SettingsError as error:
        advice = patcher.plugins.advice(name, "run")
        raise SettingsError("; ".join(filter(None, (str(error), advice)))) from error
    plan = patcher.plan()  # what is wrong with it is said now, not by each process
    if patcher.settings.on_failure == "raise":
        problems = [f"patch {e.patch.name} ({e.provenance}): {e.reason}" for e in plan if e.verdict == FAILED]
        problems += map(str, patcher.plugins.problems)
        if problems:
            raise PatchError(f"nothing was started: {'; '.join(problems)}")
    expected = "None or an error of patchcore"
    refusal = patcher.plugins.first("refuse_run", _is_error, expected, options=options, plan=plan)
    if refusal is not None:
        raise refusal
    command.replace_process(Session.of(patcher, plan, options.arguments).environment(os.environ))


def _is_error(answer: object) -> bool:
    return isinstance(answer, PatchcoreError)


def _project(arguments: Sequence[str]) -> Optional[Path]:
    """Return the folder of the script among the arguments, the first of them that is a Python file."""
    scripts = (Path(argument) for argument in arguments if argument.endswith(".py"))
    return next((script.resolve().parent for script in scripts if script.is_file()), None)


def _build_parser(plugins: Optional[Plugins] = None, *, program: bool = True, add_help: bool = True) -> shared.Parser:
    parser = shared.Parser(
        prog="patchcore run",
        example=examples.RUN,
        usage="patchcore run [options] SCRIPT [arguments]\n"
        "       patchcore run [options] -m MODULE [arguments]\n"
        "       patchcore run [options] -- COMMAND [arguments]",
        description="Run a program with patches applied in each of its Python processes: the program, its workers, and "
        "the ranks that it or torchrun starts. The program itself does not change.",
        epilog="Options of patchcore run come before the program, options of the program after it. The exit code is "
        "the program's.",
        add_help=add_help,
        allow_abbrev=False,  # an option that a plugin adds is not to be taken for one of ours
    )
    add_arguments(parser, plugins, program=program)
    return parser


def add_arguments(parser: argparse.ArgumentParser, plugins: Optional[Plugins] = None, *, program: bool = True) -> None:
    """Add the options of the command, those of ``plugins`` too, and (``program``) what to run."""
    shared.add_selection(parser)
    parser.add_argument(
        "--strict", action="store_true", help="when a patch fails, revert the others and raise PatchError"
    )
    parser.add_argument(
        "--compat",
        action="append",
        dest=f"{shared.SETTING}compat",
        metavar="NAME",
        help="the program uses the API of another patcher, for example mx_driving: give it an implementation on top of "
        "patchcore; the program chooses the patches itself",
    )
    parser.add_argument(
        "--report-dir",
        dest=f"{shared.SETTING}report_dir",
        metavar="DIR",
        help="let each process write a report there, for patchcore report",
    )
    parser.add_argument(
        "--count",
        action="store_true",
        help="count calls of patched targets; the summary names patches that were never hit",
    )
    for option, how, text in (
        ("-q", {"action": "store_const", "const": QUIET}, "print nothing at the end, unless a patch failed"),
        ("-v", {"action": "count"}, "list the patches at the end; -vv: also their changes"),
    ):
        parser.add_argument(option, dest=f"{shared.SETTING}verbosity", help=text, **how)
    parser.add_argument("-m", dest="as_module", action="store_true", help="run a module, as python -m does")
    if program:
        rest = argparse.REMAINDER
        parser.add_argument("program", nargs=rest, metavar="SCRIPT", help="the program to run, and its arguments")
    if plugins is not None:
        plugins.notify("register_run_options", parser=parser, command="run")
