"""Built-in plugin ``report``: ``patchcore report`` merges the reports of a run's processes, as text, JSON or a page."""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "report",
        group="use",
        help="show the reports of all processes of a run",
        example="patchcore report run1 --html",
        fill="patchcore.builtin.report.command:add_arguments",
    )
