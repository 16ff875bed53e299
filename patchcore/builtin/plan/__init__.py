"""Built-in plugin ``plan``: ``patchcore plan`` shows the patches of another patcher that a program switches on."""

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
        "plan",
        group="find out",
        help="show which patches of another patcher a program switches on",
        example=examples.PLAN,
        add_help=False,
        take_over="patchcore.builtin.plan.command:parse",
        fill=_fill,
    )


def _fill(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.run import command
    from patchcore.plugins import Plugins

    command.add_arguments(parser, Plugins(), program=False)
