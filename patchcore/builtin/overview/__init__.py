"""Built-in plugin ``overview``: ``patchcore`` alone shows the commands, and the first ones to try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.overview = _show


def _show(parser: argparse.ArgumentParser, subparsers: Any) -> None:
    from patchcore.builtin.overview.overview import show

    show(parser, subparsers)
