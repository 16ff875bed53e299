"""Built-in plugin ``verify``: ``patchcore verify`` compares the results of replacements and originals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.builtin.shared import examples
from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands", "register_hookspecs"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "verify",
        group="trust",
        help="compare originals and replacements on the same inputs",
        example=examples.VERIFY,
        add_help=False,
        take_over="patchcore.builtin.verify.command:parse",
        fill=_fill,
    )


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.verify import hookspecs

    return hookspecs


def _fill(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.verify.command import add_arguments
    from patchcore.plugins import Plugins

    add_arguments(parser, Plugins())
