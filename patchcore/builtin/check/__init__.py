"""Built-in plugin ``check``: ``patchcore check`` exits with 1 on findings, for CI.

Findings come from the plan, from the hook ``remarks``, and from problems of plugins, which a plugin reports with
``plugins.note``. The problems that this plugin reports itself are patches that their plugin does not return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.plugins import Plugins

__all__ = ["after_collect", "register_commands"]


@hookimpl
def after_collect(plugins: Plugins, answers: Mapping[str, Sequence[Any]]) -> None:
    from patchcore.builtin.check.forgotten import note_forgotten

    note_forgotten(plugins, answers)


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "check",
        group="trust",
        help="look for broken plugins, conflicts, old patches; exit 1 if any",
        example="patchcore check --apply",
        fill="patchcore.builtin.check.command:add_arguments",
    )
