"""Built-in plugin ``plan``: ``patchcore plan`` shows which patches would be applied here, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "plan",
        group="use",
        help="show what would be applied here, and why",
        example="patchcore plan --disable numpy.compat",
        fill=_plan,
    )


def _plan(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.plan import command

    command.add_arguments(parser)
