"""Built-in plugin ``new``: ``patchcore new`` writes a plugin that passes its own tests."""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

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
        fill="patchcore.builtin.new.command:add_arguments",
    )
