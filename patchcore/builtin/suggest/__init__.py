"""Built-in plugin ``suggest``: ``patchcore suggest`` lists the distributions to install for a project.

It also gives advice on a command, an option, a program or a module that is missing here.
"""

from __future__ import annotations

from typing import Any, Optional

from patchcore.hookspecs import hookimpl

__all__ = ["advise", "register_commands"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "suggest",
        group="use",
        help="say which plugins and patches a project can use",
        example="patchcore suggest .",
        fill="patchcore.builtin.suggest.command:add_arguments",
    )


@hookimpl(trylast=True)
def advise(name: str, command: str) -> Optional[str]:
    from patchcore.builtin.install.advice import MODULE, describe_module, describe_source

    return describe_module(name) if command == MODULE else describe_source(name, command)
