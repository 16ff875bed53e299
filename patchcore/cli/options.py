"""Options that several commands share, and the Patcher they describe."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from patchcore.errors import PluginError
from patchcore.patcher import Patcher
from patchcore.settings import Settings

__all__ = ["add_format", "add_selection", "patcher_from", "report_problems"]


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose plugins and patches."""
    group = parser.add_argument_group("selection (also PATCHCORE_PLUGINS, PATCHCORE_DISABLE, [tool.patchcore])")
    group.add_argument(
        "--plugin", action="append", metavar="NAME", dest="plugins", help="load only this plugin; may be repeated"
    )
    group.add_argument(
        "--enable", action="append", metavar="NAME", help="also apply: a patch, legacy name, target or plugin"
    )
    group.add_argument(
        "--disable", action="append", metavar="NAME", help="do not apply: a patch, legacy name, target, plugin or *"
    )
    group.add_argument("-p", "--module", action="append", metavar="MODULE", dest="modules", help="a local patch module")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")


def patcher_from(options: argparse.Namespace) -> Patcher:
    """Return the Patcher that the parsed options, the environment and pyproject.toml describe.

    Raises:
        UnknownName, SettingsError: an option or setting means nothing.
        PluginError: a local patch module cannot be loaded; unlike installed plugins, these were asked for by name.
    """
    arguments: dict[str, Any] = {
        "plugins": split(options.plugins),
        "enable": split(options.enable),
        "disable": split(options.disable),
        "on_failure": "raise" if getattr(options, "strict", False) else None,
        "report_dir": getattr(options, "report_dir", None),
    }
    if options.modules and "" not in sys.path:
        sys.path.insert(0, "")  # local modules are found from the current directory, as with python -m
    settings = Settings.load(arguments=arguments, origin="command line")
    modules = split(options.modules) or []
    patcher = Patcher.discover(settings=settings, modules=modules)
    for problem in patcher.plugins.problems:
        if problem.plugin in modules and problem.where == "load":
            raise PluginError(f"the patch module {problem.plugin} given with -p cannot be loaded: {problem.message}")
    return patcher


def split(values: Any) -> Any:
    """Return the names in repeated options, each of which may hold several separated by commas; ``None`` for none."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()] if values else None


def report_problems(patcher: Patcher) -> None:
    """Print what is wrong with plugins to stderr."""
    for problem in patcher.plugins.problems:
        print(f"patchcore: {problem}", file=sys.stderr)
        for line in problem.traceback.rstrip().splitlines()[-3:]:
            print(f"    {line}", file=sys.stderr)
