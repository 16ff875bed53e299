"""Built-in plugin ``upgrade``: ``patchcore upgrade-report`` says what an upgrade of a library would do to patches."""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "upgrade-report",
        group="trust",
        help="show what another release of a library does to patches",
        example="patchcore upgrade-report mmdet==3.2.0 mmdet==3.3.0",
        fill="patchcore.builtin.upgrade.command:add_arguments",
    )
