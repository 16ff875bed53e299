"""Built-in plugin ``explain``: ``patchcore explain`` shows who changes a target, from where and how."""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "explain",
        group="find out",
        help="show which patches change a target, or why a patch does not",
        example="patchcore explain mmcv.nms_rotated",
        fill="patchcore.builtin.explain.command:add_arguments",
    )
