"""Built-in plugin ``environment``: ``patchcore environment`` prints how processes elsewhere take part in a run."""

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
        "environment",
        group="use",
        help="print the environment for a process on another machine",
        example=examples.ENVIRONMENT,
        add_help=False,
        take_over="patchcore.builtin.environment.command:parse",
        fill=_fill,
    )


def _fill(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.environment.command import add_arguments
    from patchcore.plugins import Plugins

    add_arguments(parser, Plugins())
