"""Options that several commands share, and the Patcher they describe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Optional

from patchcore.errors import PluginError
from patchcore.patcher import Patcher
from patchcore.settings import Settings

__all__ = ["add_format", "add_selection", "describe_problems", "patcher_from", "print_problems"]


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


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")


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
        "on_failure": "raise" if getattr(options, "strict", False) else None,
        "report_dir": getattr(options, "report_dir", None),
    }
    patcher = Patcher.discover(settings=Settings.load(arguments=arguments, origin="command line", start=start))
    directories = dict(patcher.settings.modules)
    for problem in patcher.plugins.problems:
        if problem.plugin in directories and problem.where == "load":
            where = directories[problem.plugin]
            raise PluginError(f"the patch module {problem.plugin} (of {where}) cannot be loaded: {problem.message}")
    return patcher


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
        print(f"patchcore: {problem}", file=sys.stderr)
        for line in problem.traceback.rstrip().splitlines()[-3:]:
            print(f"    {line}", file=sys.stderr)


def _names(values: Optional[list[str]]) -> Optional[list[str]]:
    """The names in repeated options, each of which may hold several separated by commas; ``None`` for none."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()] if values else None
