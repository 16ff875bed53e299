"""Built-in plugin ``list``: ``patchcore list`` shows which patches are installed, and the plan for them."""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "list",
        group="use",
        help="show which patches are applied here, and why others are not",
        example="patchcore list deform -v --disable numpy.compat",
        fill="patchcore.builtin.list.command:add_arguments",
    )
