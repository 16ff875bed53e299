"""Built-in plugin ``doctor``: ``patchcore doctor`` checks the environment and which child processes are patched."""

from __future__ import annotations

from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["register_commands", "register_hookspecs"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "doctor",
        group="find out",
        help="show what in this environment affects patches",
        example="patchcore doctor --workers",
        fill="patchcore.builtin.doctor.command:add_arguments",
    )


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.doctor import hookspecs

    return hookspecs
