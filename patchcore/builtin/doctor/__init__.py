"""Built-in plugin ``doctor``: ``patchcore doctor`` checks the environment and which child processes are patched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

__all__ = ["register_commands", "register_hookspecs"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "doctor",
        group="find out",
        help="show what in this environment affects patches",
        example="patchcore doctor --workers",
        fill=_doctor,
    )


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.doctor import hookspecs

    return hookspecs


def _doctor(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.doctor import command

    command.add_arguments(parser)
