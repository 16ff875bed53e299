"""Options that several commands share, and the Patcher they describe."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from patchcore.cli.output import print_error
from patchcore.errors import PluginError, SettingsError
from patchcore.objects.modules import lineage
from patchcore.objects.printable import printable
from patchcore.patcher import Patcher
from patchcore.report import Problem
from patchcore.settings import Settings

__all__ = [
    "Parser",
    "add_format",
    "add_selection",
    "add_training",
    "describe_problems",
    "parse",
    "patcher_from",
    "print_problems",
]

#: The options of ``[tool.patchcore.profiling]`` that are options of the command line, each with its value and help.
_PROFILING = {
    "level": ("0|1|2", "0: the accelerator only (default), 1: also the CPU, shapes, 2: also call stacks, memory"),
    "skip_first": ("N", "steps that are not recorded at first (default: 20)"),
    "wait": ("N", "steps without profiler between two recordings (default: 1)"),
    "warmup": ("N", "steps with the profiler warming up before each recording (default: 1)"),
    "active": ("N", "steps of each recording (default: 1)"),
    "repeat": ("N", "recordings, 0 for as many as fit (default: 1)"),
}


class Parser(argparse.ArgumentParser):
    """A parser whose help, to which plugins add, is fit for a terminal."""

    color = False  # Python 3.14 writes control characters of its own

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(printable(message), file)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose plugins and patches."""
    group = parser.add_argument_group(
        "selection",
        "Also PATCHCORE_PLUGINS, PATCHCORE_MODULES, PATCHCORE_ENABLE, PATCHCORE_DISABLE, PATCHCORE_USE_PROFILE, "
        "and [tool.patchcore] in pyproject.toml.",
    )
    group.add_argument(
        "--plugin", action="append", metavar="NAME", dest="plugins", help="load only this plugin; may be repeated"
    )
    group.add_argument(
        "--enable", action="append", metavar="NAME", help="also apply: a patch, legacy name, target or plugin"
    )
    group.add_argument(
        "--disable", action="append", metavar="NAME", help="do not apply: a patch, legacy name, target, plugin or *"
    )
    group.add_argument(
        "-p", "--module", action="append", metavar="MODULE", dest="modules", help="a patch module of this directory"
    )
    group.add_argument("--use-profile", metavar="NAME", help="lay [tool.patchcore.profiles.NAME] over [tool.patchcore]")


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the options for profiling and brake."""
    group = parser.add_argument_group(
        "training",
        "Steps are counted from 1. Also PATCHCORE_PROFILING, PATCHCORE_BRAKE, PATCHCORE_STEP, and [tool.patchcore].",
    )
    group.add_argument(
        "--profile", metavar="DIR", help="record training steps, by default step 21, and write them there"
    )
    for name, (metavar, text) in _PROFILING.items():
        group.add_argument(f"--profile-{name.replace('_', '-')}", type=int, metavar=metavar, help=text)
    group.add_argument(
        "--brake",
        metavar="N|auto",
        help="end the program, exit code 0, after training step N, or when profiling is done",
    )
    group.add_argument(
        "--step",
        action="append",
        metavar="TARGET",
        help="a call of this function is a training step, package.module:Class.method; may be repeated",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str], patcher: Patcher) -> argparse.Namespace:
    """Parse options of which plugins have added some; exit like argparse where one is unknown, with a hint.

    Args:
        parser: with the options of the plugins that are loaded.
        arguments: to parse.
        patcher: with these plugins.
    """
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        allowed = patcher.settings.plugins
        hint = ""
        if allowed is not None:
            hint = f"; of the plugins that may add options, {', '.join(allowed) or 'none'} may be loaded (see --plugin)"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return options


def patcher_from(options: argparse.Namespace, *, start: Optional[Path] = None) -> Patcher:
    """Return the Patcher that the parsed options, the environment and pyproject.toml describe.

    Args:
        options: parsed.
        start: see :meth:`patchcore.settings.Settings.load`.

    Raises:
        UnknownName, SettingsError: an option or setting means nothing.
        PluginError: a local patch module cannot be loaded; unlike installed plugins, these were asked for by name.
    """
    arguments: dict[str, Any] = {
        "plugins": _names(options.plugins),
        "modules": _names(options.modules),
        "enable": _names(options.enable),
        "disable": _names(options.disable),
        "use_profile": options.use_profile,
        "compat": _names(getattr(options, "compat", None)),
        "on_failure": "raise" if getattr(options, "strict", False) else None,
        "report_dir": getattr(options, "report_dir", None),
        "profiling": _profiling(options),
        "brake": getattr(options, "brake", None),
        "step": getattr(options, "step", None),
        "count": True if getattr(options, "count", False) else None,
    }
    patcher = Patcher.discover(settings=Settings.load(arguments=arguments, origin="command line", start=start))
    directories = dict(patcher.settings.modules)
    for problem in patcher.plugins.problems:
        if problem.plugin in directories and problem.where == "load":
            where = directories[problem.plugin]
            lines = [] if _is_missing(problem) else problem.traceback.rstrip().splitlines()[-3:]
            message = f"the patch module {problem.plugin} (of {where}) cannot be loaded: {problem.message}"
            raise PluginError("\n    ".join([message, *lines]))
    return patcher


def _is_missing(problem: Problem) -> bool:
    """Tell whether a local module, or a package around it, is not there, so that no line of it is to be shown."""
    names = (f"No module named {name!r}" for name in lineage(problem.plugin))
    return any(problem.message == f"ModuleNotFoundError: {name}" for name in names)


def describe_problems(patcher: Patcher) -> list[dict[str, Optional[str]]]:
    """Return what is wrong with plugins, for JSON."""
    return [
        {
            "plugin": p.plugin,
            "distribution": p.distribution,
            "version": p.version,
            "where": p.where,
            "message": p.message,
        }
        for p in patcher.plugins.problems
    ]


def print_problems(patcher: Patcher) -> None:
    """Print what is wrong with plugins to stderr."""
    for problem in patcher.plugins.problems:
        print_error(str(problem))
        for line in problem.traceback.rstrip().splitlines()[-3:]:
            print_error(line, who="    ")


def _profiling(options: argparse.Namespace) -> Optional[dict[str, Any]]:
    """The table that ``--profile`` and the options about it make, ``None`` for none."""
    values = {name: getattr(options, f"profile_{name}", None) for name in _PROFILING}
    given = {name: value for name, value in values.items() if value is not None}
    path = getattr(options, "profile", None)
    if path is None:
        if given:
            name = next(iter(given)).replace("_", "-")
            raise SettingsError(f"--profile-{name} says how to profile, and --profile DIR is missing")
        return None
    return {"path": path, **given}


def _names(values: Optional[list[str]]) -> Optional[list[str]]:
    """The names in repeated options, each of which may hold several separated by commas; ``None`` for none."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()] if values else None
