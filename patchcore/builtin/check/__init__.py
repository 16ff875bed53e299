"""Built-in plugin ``check``: ``patchcore check`` exits with 1 if patches do not fit, for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "check",
        group="trust",
        help="look for broken plugins, conflicts and drift; exit 1 on findings",
        example="patchcore check --apply",
        fill=_check,
    )


def _check(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.check import command

    command.add_arguments(parser)
