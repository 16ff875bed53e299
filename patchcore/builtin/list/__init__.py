"""Built-in plugin ``list``: ``patchcore list`` shows which patches are installed, and the plan for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "list",
        group="use",
        help="show which patches are applied here, and why the others are not",
        example="patchcore list deform -v --disable numpy.compat",
        fill=_list,
    )


def _list(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.list import command

    command.add_arguments(parser)
