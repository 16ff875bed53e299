"""Built-in plugin ``bisect``: ``patchcore bisect`` finds the patches that make a command fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.builtin.shared import examples
from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "bisect",
        group="find out",
        help="find the patches that make a command fail",
        example=examples.BISECT,
        add_help=False,
        take_over="patchcore.builtin.bisect.command:parse",
        fill=_fill,
    )


def _fill(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.bisect.command import add_arguments
    from patchcore.builtin.run import command
    from patchcore.plugins import Plugins

    add_arguments(parser)
    command.add_arguments(parser, Plugins(), program=False)
