"""Built-in plugin ``new``: ``patchcore new`` writes a plugin that passes its own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands", "register_hookspecs"]


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.new import hookspecs

    return hookspecs


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "new",
        group="write",
        help="write a plugin that passes its own tests",
        example="patchcore new bevformer-npu-patches",
        fill=_new,
    )


def _new(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.new import command

    command.add_arguments(parser)
