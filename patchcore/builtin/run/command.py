"""``patchcore run``: start a program whose every Python process is patched, in the place of this one."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from patchcore.builtin.run.compat import chosen_compat
from patchcore.builtin.run.verbosity import QUIET
from patchcore.builtin.shared import command_line, examples
from patchcore.cli import options as shared
from patchcore.errors import PatchcoreError, PatchError, SettingsError
from patchcore.patcher import Patcher
from patchcore.plugins import Plugins
from patchcore.report import FAILED
from patchcore.settings import Settings

__all__ = ["add_arguments", "main", "options_of_run", "parse", "parse_options"]

logger = logging.getLogger("patchcore")


#: The options that choose plugins: the name of each parsed option, with its spelling.
_CHOOSING = {"plugins": "--plugin", "modules": "-p", "variant": "--variant"}

#: Further options that decide on settings, and on the pyproject.toml that they are read from.
_DECISIVE = ("enable", "disable", "strict", "count", "as_module")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``run``, with the options that plugins add.

    Plugins add options, and ``-p`` and ``--plugin`` choose plugins: these come first. The first parse knows the options
    of patchcore and chooses the plugins; the second one knows the options of these plugins, too.
    """
    from patchcore.builtin.run.logs import level_of, log_to_stderr

    chosen, _ = _build_parser(Plugins(discover=False), add_help=False).parse_known_args(arguments)
    patcher, project = _load(chosen, arguments)
    parser = _build_parser(patcher.plugins)
    options = command_line.parse(parser, arguments, patcher)
    late = [name for name in _CHOOSING if getattr(options, name) != getattr(chosen, name)]
    if late:
        parser.error(f"{_CHOOSING[late[0]]} comes before the options of plugins; write: {_reordered(options)}")
    if _settings(options) != _settings(chosen):
        patcher, project = _load(options, arguments)
    log_to_stderr(level_of(patcher.settings))
    for problem in patcher.plugins.problems:  # now that it is certain how loud to log
        logger.warning("%s", f"{problem}\n{problem.traceback}".rstrip())
    command_line.advise_on_modules(patcher, (problem.message for problem in patcher.plugins.problems))
    chosen_compat(patcher.settings, patcher.plugins)  # refuses unknown names before anything is started
    if options.program[:1] == ["--"]:
        del options.program[0]
    if not options.program:
        parser.error(
            "expected a program to run: patchcore run train.py, patchcore run -m package.train, "
            "or patchcore run -- torchrun ..."
        )
    options.patcher, options.project = patcher, project
    # the program's own options are private, and there may be many
    options.arguments = arguments[: len(arguments) - len(options.program)]
    options.command = main
    return options


def _reordered(options: argparse.Namespace) -> str:
    """Return the beginning of the command line with the options that choose plugins in front."""
    given = ((option, getattr(options, name)) for name, option in _CHOOSING.items())
    pairs = ((option, value) for option, values in given for value in _listed(values))
    return " ".join(["patchcore run", *(f"{option} {value}" for option, value in pairs), "..."])


def _listed(values: Any) -> Sequence[str]:
    return values if isinstance(values, list) else [values] if values else []


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parsed options that decide on settings, those of plugins too, and on the folder of the project."""
    return {
        name: value
        for name, value in vars(options).items()
        if value is not None and (name in _DECISIVE or name.startswith(shared.SETTING_PREFIX))
    }


def _load(options: argparse.Namespace, arguments: Sequence[str]) -> tuple[Patcher, Optional[Path]]:
    project = None if options.as_module else _project(arguments)
    patcher = shared.patcher_from(options, start=project)
    settings = patcher.settings
    left_out = {provenance.plugin for provenance in patcher.plugins.denied}.intersection(settings.get("compat"))
    if left_out:  # --plugin chooses patches; an interface that is named is used in any case
        allowed = (*(settings.plugins or ()), *sorted(left_out))
        patcher = Patcher.discover(settings=settings._replace(plugins=allowed))
    return patcher, project


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
    except SystemExit as error:  # argparse has printed the reason
        raise SettingsError(f"the options of patchcore run cannot be parsed here: {' '.join(arguments)}") from error


def options_of_run(plugins: Plugins) -> frozenset[str]:
    """Return the options of ``patchcore run``, with their dashes, that ``plugins`` add too."""
    return frozenset(_build_parser(plugins, program=False, add_help=False)._option_string_actions)


def main(options: argparse.Namespace) -> None:
    """Start the program in the place of this process.

    Raises:
        SettingsError: there is no such program, or it cannot be started.
        PatchError: a patch cannot be applied, under the policy ``raise``; or the lock file differs.
    """
    from patchcore.builtin.run.program import find_command
    from patchcore.builtin.run.session import Session

    patcher: Patcher = options.patcher
    _refuse_report_dir(patcher.settings)
    name, *arguments = options.program
    try:
        command = find_command(name, arguments, as_module=options.as_module)
    except SettingsError as error:
        advice = patcher.plugins.advice(name, "run")
        raise SettingsError("; ".join(filter(None, (str(error), advice)))) from error
    plan = patcher.plan()  # its faults are shown once here, and not by each process
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


def _refuse_report_dir(settings: Settings) -> None:
    """Raise :class:`SettingsError` where no process could write its report into the folder for them."""
    path = settings.get("report_dir")
    if path is None:
        return
    folder = next(each for each in (Path(path), *Path(path).absolute().parents) if each.exists())
    if not folder.is_dir():
        why = f"{folder} is not a folder"
    elif not os.access(folder, os.W_OK | os.X_OK):
        why = f"{folder} is not writable"
    else:
        return
    raise SettingsError(f"{settings.origins.get('report_dir')}: reports cannot be written to {path}: {why}")


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
    """Add the options of the command, those of ``plugins`` too, and (``program``) the program."""
    shared.add_selection(parser)
    parser.add_argument(
        "--strict", action="store_true", help="when a patch fails, revert the others and raise PatchError"
    )
    parser.add_argument(
        "--compat",
        action="append",
        dest=f"{shared.SETTING_PREFIX}compat",
        metavar="NAME",
        help="the program uses the API of another patcher, for example mx_driving: give it an implementation on top of "
        "patchcore; the program chooses the patches itself",
    )
    parser.add_argument(
        "--report-dir",
        dest=f"{shared.SETTING_PREFIX}report_dir",
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
        parser.add_argument(option, dest=f"{shared.SETTING_PREFIX}verbosity", help=text, **how)
    parser.add_argument("-m", dest="as_module", action="store_true", help="run a module, as python -m does")
    if program:
        rest = argparse.REMAINDER
        parser.add_argument("program", nargs=rest, metavar="SCRIPT", help="the program to run, and its arguments")
    if plugins is not None:
        plugins.notify("register_run_options", parser=parser, command="run")
