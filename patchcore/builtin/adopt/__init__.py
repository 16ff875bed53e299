"""Built-in plugin ``adopt``: ``patchcore adopt`` writes a plugin from the monkey patches that a program makes."""

from __future__ import annotations

from typing import Any

from patchcore.builtin.shared import examples
from patchcore.hookspecs import hookimpl

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "adopt",
        group="write",
        help="write a plugin from the monkey patches of a program",
        example=examples.ADOPT,
        add_help=False,
        take_over="patchcore.builtin.adopt.command:parse",
        fill="patchcore.builtin.adopt.command:add_arguments",
    )
