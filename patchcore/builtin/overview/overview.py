"""The output of ``patchcore`` alone and ``patchcore --help``: the commands by purpose, and the first ones to try."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.builtin.install.command import install_command
from patchcore.builtin.install.distributions import known_distributions
from patchcore.builtin.shared.rows import print_rows
from patchcore.cli.output import print_line

__all__ = ["GROUPS", "show"]

#: The groups in their order; groups of other plugins come after them.
GROUPS = ("use", "write", "trust", "find out")

#: The first commands to try, with their purpose.
_FIRST = (
    ("patchcore suggest .", "what to install for the project in this folder"),
    ("patchcore list", "the patches, and which are applied here"),
    ("patchcore run train.py", "your program, patched; --emulate-npu without an NPU"),
)


def show(parser: argparse.ArgumentParser, subparsers: Any) -> None:
    """Print the commands.

    Args:
        parser: of the command line.
        subparsers: has the parser of each command, those of plugins too.
    """
    groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    for name, text in reversed(
        _described(subparsers)
    ):  # plugins that were loaded first, those of patchcore, come first
        groups.setdefault(subparsers.choices[name].group, []).append((name, text))
    print_line("usage: patchcore COMMAND [options]")
    print_line(f"\n{parser.description} First:\n")
    print_rows(_FIRST)
    width = max(map(len, subparsers.choices))
    for group, commands in groups.items():
        if commands:
            print_line(f"\n{group}", style="bold")
            print_rows([(name.ljust(width), text) for name, text in commands])
    missing = [
        found for found in known_distributions() if found.commands and found.commands[0] not in subparsers.choices
    ]
    if missing:
        print_line("\nwith another distribution", style="bold")
        print_rows([(", ".join(found.commands), install_command(found.name)) for found in missing])
    print_line("\npatchcore COMMAND --help shows its options; patchcore --version the version")
    print_line("exit codes: 0 ok, 1 findings, 2 usage, 3 internal error, 130 interrupted")


def _described(subparsers: Any) -> list[tuple[str, str]]:
    """Return the commands in the order in which they were added, each with the line that argparse shows for it."""
    return [(action.dest, action.help or "") for action in subparsers._choices_actions]
