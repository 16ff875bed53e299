"""Built-in plugin ``report``: ``patchcore report`` merges the reports of a run's processes, as text, JSON or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "report",
        group="use",
        help="show the reports of all processes of a run",
        example="patchcore report run1 --html",
        fill=_report,
    )


def _report(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.report import command

    command.add_arguments(parser)
