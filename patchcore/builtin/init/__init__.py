"""Built-in plugin ``init``: ``patchcore init`` writes a commented ``[tool.patchcore]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "init",
        group="use",
        help="write a commented [tool.patchcore] to pyproject.toml",
        example="patchcore init",
        fill=_init,
    )


def _init(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.init import command

    command.add_arguments(parser)
