"""Built-in plugin ``completion``: ``patchcore completion SHELL`` prints a script that completes command lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "completion",
        group="use",
        help="print a script that completes commands in a shell",
        example="patchcore completion bash",
        fill=_fill,
    )


def _fill(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.completion import command

    command.add_arguments(parser)
