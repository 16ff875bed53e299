"""``patchcore graph``: explains how the graphs of a program were compiled, and manages their kernels."""

from __future__ import annotations

from typing import Any

from npu_graph import cli_cache, cli_explain

__all__ = ["add_parser"]


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "graph",
        group="find out",
        help="show what becomes of graphs on hardware of vendors",
        example="patchcore graph cache",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    cli_explain.add_action(actions)
    cli_cache.add_action(actions)
