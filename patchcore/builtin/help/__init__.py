"""Built-in plugin ``help``: ``patchcore`` alone shows the commands, and what to type first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "help",
        group="find out",
        help="show all commands, or the options of one",
        example="patchcore help run",
        fill=_help,
    )


def _help(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.help import command

    command.add_arguments(parser)
