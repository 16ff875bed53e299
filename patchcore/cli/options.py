"""Options that several commands share, and the Patcher they describe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable, NoReturn, Optional, Union

from patchcore.declare.changes import resolve
from patchcore.declare.target import Target
from patchcore.errors import PluginError, did_you_mean, missing_modules
from patchcore.objects.modules import dotted_prefixes
from patchcore.objects.printable import printable
from patchcore.patcher import Patcher
from patchcore.report import Problem
from patchcore.settings import Settings

__all__ = ["SETTING_PREFIX", "Parser", "add_format", "add_selection", "patcher_from"]

#: Before the name of a plugin's setting: the ``dest`` of an option that sets it, for ``add_argument`` in a hook.
SETTING_PREFIX = "setting:"


class Parser(argparse.ArgumentParser):
    """The parser of one command. Plugins may add options; the help fits the width of the terminal.

    Args:
        arguments, keywords: of :class:`argparse.ArgumentParser`.
        fill: called with this parser when it is used, to add its arguments, so that only the command that runs is
            imported. A function, or the target of one.
        take_over: called with all arguments after the name of the command, instead of this parser; ``fill`` then only
            serves help and completion. A function or a target, too.
        group: the heading in ``patchcore --help``, the user's purpose: ``use``, ``write``, ``trust``, ``find out``, or
            another word.
        example: a whole command line, which the help ends with.
    """

    color = False  # Python 3.14 writes control characters of its own

    def __init__(
        self,
        *arguments: Any,
        fill: Union[Callable[[argparse.ArgumentParser], None], str, None] = None,
        take_over: Union[Callable[[Sequence[str]], argparse.Namespace], str, None] = None,
        group: str = "more",
        example: str = "",
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.fill = _imported_when_called(fill)
        self.take_over = _imported_when_called(take_over)
        self.group = group
        self.example = example

    def format_help(self) -> str:
        """Return the help, which ends with the example."""
        return super().format_help() + (f"\nexample:\n  {self.example}\n" if self.example else "")

    def complete(self) -> bool:
        """Add the arguments that ``fill`` adds, and return True; once, or if there is no ``fill``, return False."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        return fill is not None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; see :class:`argparse.ArgumentParser`. A command that is filled refuses arguments that it has not."""
        if not self.complete():
            return super().parse_known_args(args, namespace)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown)
        return parsed, unknown

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End the program because of arguments that no option and no command takes, with the nearest option."""
        given = next((argument.partition("=")[0] for argument in unknown if argument.startswith("-")), "")
        self.error(f"unrecognized arguments: {' '.join(unknown)}{did_you_mean(given, _options_of(self))}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            hint = f"expected one of {', '.join(known)}{did_you_mean(str(value), known)}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:
            (file or sys.stderr).write(printable(message))  # argparse would hide that a disk is full


def _imported_when_called(function: Any) -> Any:
    """Return ``function``; if it is a target text, a function that imports that target and calls it."""
    return (lambda given: resolve(Target.parse(function))(given)) if isinstance(function, str) else function


def _options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a parser and of the parsers of its commands."""
    for action in parser._actions:
        yield from action.option_strings
        for below in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from _options_of(below)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose plugins and patches.

    Examples:
        >>> import argparse
        >>> from patchcore.plugin import add_selection
        >>> parser = argparse.ArgumentParser()
        >>> add_selection(parser)
        >>> parser.parse_args(["--disable", "shop.price"]).disable
        ['shop.price']
    """
    group = parser.add_argument_group(
        "selection",
        "Can also be set by PATCHCORE_PLUGINS, PATCHCORE_MODULES, PATCHCORE_ENABLE, PATCHCORE_DISABLE, "
        "PATCHCORE_VARIANT, and in [tool.patchcore] of pyproject.toml.",
    )
    group.add_argument(
        "--plugin", action="append", metavar="NAME", dest="plugins", help="load only this plugin; may be repeated"
    )
    group.add_argument(
        "--enable", action="append", metavar="NAME", help="also apply this patch, legacy name, target or plugin"
    )
    group.add_argument(
        "--disable",
        action="append",
        metavar="NAME",
        help="do not apply this patch, legacy name, target, plugin or * (all)",
    )
    group.add_argument(
        "-p",
        "--module",
        action="append",
        metavar="MODULE",
        dest="modules",
        help="also load this module with patches, found from the current directory",
    )
    group.add_argument(
        "--variant", metavar="NAME", help="apply [tool.patchcore.variants.NAME] on top of [tool.patchcore]"
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``.

    Examples:
        >>> import argparse
        >>> from patchcore.plugin import add_format
        >>> parser = argparse.ArgumentParser()
        >>> add_format(parser)
        >>> parser.parse_args(["--format", "json"]).format
        'json'
    """
    parser.add_argument("--format", choices=("table", "json"), default="table", help="output format (default: table)")


def patcher_from(options: argparse.Namespace, *, start: Optional[Path] = None) -> Patcher:
    """Return the Patcher that the parsed options, the environment and pyproject.toml describe.

    Args:
        options: parsed.
        start: see :meth:`patchcore.settings.Settings.load`.

    Raises:
        UnknownName, SettingsError: an option or setting means nothing.
        PluginError: a local patch module cannot be loaded; unlike installed plugins, the user named these.

    Examples:
        >>> import argparse
        >>> from patchcore.plugin import add_selection, patcher_from
        >>> parser = argparse.ArgumentParser()
        >>> add_selection(parser)
        >>> patcher_from(parser.parse_args([])).applied
        False
    """
    arguments: dict[str, Any] = {
        "plugins": _names(options.plugins),
        "modules": _names(options.modules),
        "enable": _names(options.enable),
        "disable": _names(options.disable),
        "variant": options.variant,
        "on_failure": "raise" if getattr(options, "strict", False) else None,
        "count": True if getattr(options, "count", False) else None,
        **{
            name[len(SETTING_PREFIX) :]: value
            for name, value in vars(options).items()
            if name.startswith(SETTING_PREFIX)
        },
    }
    patcher = Patcher.discover(settings=Settings.load(arguments=arguments, origin="command line", start=start))
    directories = dict(patcher.settings.modules)
    for problem in patcher.plugins.problems:
        if problem.plugin in directories and problem.where == "load":
            where = directories[problem.plugin]
            lines = [] if _is_missing(problem) else problem.traceback.rstrip().splitlines()[-3:]
            message = f"the patch module {problem.plugin} (in {where}) cannot be loaded: {problem.message}"
            lines += patcher.plugins.advice_on_modules(missing_modules([problem.message]))
            lines = _installed_as(problem.plugin, patcher) or lines
            raise PluginError("\n    ".join([message, *lines]))
    for name in directories:
        if name in patcher.plugins.provenances and not patcher.plugins.manager.get_hookcallers(
            patcher.plugins.manager.get_plugin(name)
        ):
            lines = _installed_as(name, patcher)
            if lines:
                raise PluginError("\n    ".join([f"the module {name} has no patches", *lines]))
    return patcher


def _installed_as(name: str, patcher: Patcher) -> list[str]:
    """Return a line with the option to use instead of ``-p NAME`` if the name means an installed plugin; else none."""
    for plugin in (*patcher.plugins.provenances.values(), *patcher.plugins.denied):
        if plugin.distribution and plugin.is_meant_by(name):
            what = "is an" if name == plugin.plugin else "belongs to an"
            hint = f"--plugin {plugin.plugin} loads only this plugin, -p loads a module"
            return [f"{name} {what} installed plugin: {hint}"]
    return []


def _is_missing(problem: Problem) -> bool:
    """Return whether a local module, or a package around it, is not there, so that no line of it is to be shown."""
    names = (f"No module named {name!r}" for name in dotted_prefixes(problem.plugin))
    return any(problem.message == f"ModuleNotFoundError: {name}" for name in names)


def _names(values: Optional[list[str]]) -> Optional[list[str]]:
    """The names in repeated options, each of which may hold several separated by commas; ``None`` for none."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()] if values else None
