"""Built-in plugin ``run``: ``patchcore run`` starts a program and patches every Python process of it.

It has the settings ``report_dir``, ``compat``, ``verbosity`` and ``log``, and calls the hooks ``register_run_options``,
``configure_run``, ``start_process``, ``process_patched``, ``rank_launchers``, ``register_engines`` and ``conclusions``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from patchcore.builtin.shared import examples
from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

    from patchcore.settings import Choice, Setting

__all__ = ["register_commands", "register_hookspecs", "register_settings"]


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "run",
        group="use",
        help="run a program with patches in each of its Python processes",
        example=examples.RUN,
        add_help=False,
        take_over="patchcore.builtin.run.command:parse",
        fill=_fill,
    )


def _fill(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.run.command import add_arguments
    from patchcore.plugins import Plugins

    add_arguments(parser, Plugins())


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.run import hookspecs

    return hookspecs


@hookimpl
def register_settings() -> Iterable[Setting]:
    from patchcore.builtin.run.verbosity import check_level, check_verbosity
    from patchcore.settings import Setting, check_names, check_path

    return (
        Setting("report_dir", check_path),
        Setting(
            "compat",
            check_names,
            default=(),
            choices=_without_patches,
        ),
        Setting(
            "verbosity",
            check_verbosity,
            default=0,
            option="-q or -v",
        ),
        Setting("log", check_level),
    )


def _without_patches(value: Any, origin: str) -> Iterable[Choice]:
    """Disable all patches for a program that is written for another patcher: it applies patches itself."""
    from patchcore.settings import Choice

    return [Choice(False, "*", f"{origin} {','.join(value)}", -1)] if value else []
