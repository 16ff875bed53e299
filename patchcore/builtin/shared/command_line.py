"""Output and options that several commands share, besides the options of the core."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Optional

from patchcore.cli import options as shared
from patchcore.cli.output import print_error
from patchcore.errors import did_you_mean, missing_modules
from patchcore.objects.modules import find_module
from patchcore.patcher import Patcher

__all__ = ["advise_on_modules", "describe_problems", "parse", "positive", "print_problems"]


def positive(text: str) -> int:
    """Return the number that an option has got; for ``type=`` of an option.

    Raises:
        argparse.ArgumentTypeError: it is no whole number, or less than 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more, got {text!r}")
    return int(text)


def parse(parser: shared.Parser, arguments: Sequence[str], patcher: Patcher) -> argparse.Namespace:
    """Parse options of which plugins have added some; exit like argparse where one is unknown, with a hint.

    Args:
        parser: with the options of the plugins that are loaded.
        arguments: to parse.
        patcher: with these plugins.
    """
    options, problem = argparse.Namespace(), ""
    parser.exit_on_error = False
    try:
        options, unknown = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        # A missing plugin may also be the one that accepts this value: `--emulate-npu=cann` is of another plugin than
        # `--emulate-npu`.
        names, problem = (error.argument_name or "").split("/"), str(error)
        unknown = [argument for argument in arguments if argument.partition("=")[0] in names and "=" in argument]
    finally:
        parser.exit_on_error = True
    hint = _hint(unknown, arguments, parser, patcher) if unknown else ""
    if hint:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; {hint}")
    if problem:
        parser.error(_values(unknown, parser) or problem)
    if unknown:
        parser.refuse(unknown)
    return options


def _values(unknown: Sequence[str], parser: shared.Parser) -> str:
    """Return the values that an option has where each is an option of its own; empty if the option has none.

    ``--emulate-npu=imitation`` is such an option: ``--emulate-npu train.py`` must not read the program as the value.
    """
    for argument in unknown:
        name, _, value = argument.partition("=")
        known = [option for option in parser._option_string_actions if option.startswith(f"{name}=")]
        if known:
            nearest = did_you_mean(value, [option.partition("=")[2] for option in known])
            return f"expected {' or '.join([name, *known])}, found {argument}{nearest}"
    return ""


def _hint(unknown: Sequence[str], arguments: Sequence[str], parser: shared.Parser, patcher: Patcher) -> str:
    """Return why options, or values of options, may be missing: their plugin is not installed, or is not loaded.

    Empty if the option is misspelt, or exists and no plugin is known that accepts the value.
    """
    command = parser.prog.rpartition(" ")[2]
    exists = unknown[0].partition("=")[0] in parser._option_string_actions
    behind = arguments[arguments.index(unknown[0]) :] if unknown[0] in arguments and not exists else ()
    pairs = zip(behind, behind[1:])  # those of the program may look the same
    late = [(option, value) for option, value in pairs if option in ("-p", "--module", "--plugin")]
    loaded = patcher.plugins.provenances
    if any(value not in loaded and (option == "--plugin" or find_module(value)) for option, value in late):
        return "-p MODULE and --plugin NAME come first; the options of these plugins come after them"
    for argument in unknown:
        if not argument.startswith("-"):
            continue
        name = argument.partition("=")[0]
        advice: Optional[str] = patcher.plugins.advice(argument, command)
        if not (advice or exists):
            advice = patcher.plugins.advice(name, command)
        if advice:
            return advice
        if did_you_mean(name, parser._option_string_actions):
            return ""
    allowed = patcher.settings.plugins
    if allowed is None:
        return ""
    return (
        f"the plugin with this option may be excluded; included plugins: {', '.join(allowed) or 'none'} (see --plugin)"
    )


def describe_problems(patcher: Patcher) -> list[dict[str, Optional[str]]]:
    """Return the problems of plugins, for JSON."""
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


def print_problems(patcher: Patcher, messages: Iterable[str] = ()) -> None:
    """Print the problems of plugins to stderr, with advice on missing modules.

    Args:
        patcher: with the plugins.
        messages: other errors that the command shows, which may be about missing modules, too.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import print_problems
        >>> print_problems(pc.Patcher())  # no plugin failed
    """
    for problem in patcher.plugins.problems:
        print_error(str(problem))
        for line in problem.traceback.rstrip().splitlines()[-3:]:
            print_error(line, who="    ")
    advise_on_modules(patcher, [*messages, *(problem.message for problem in patcher.plugins.problems)])


def advise_on_modules(patcher: Patcher, messages: Iterable[str]) -> None:
    """Print advice to stderr on the modules that are missing according to Python's messages."""
    for line in patcher.plugins.advice_on_modules(missing_modules(messages)):
        print_error(line)
