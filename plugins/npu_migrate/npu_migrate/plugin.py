"""The entry point: the commands ``migrate`` and ``ops``, the option ``--trace-operators``, and the hook for rules."""

from __future__ import annotations

import argparse
from typing import Any

import patchcore as pc
from npu_migrate.migrate import hookspecs
from npu_migrate.ops import run_options

__all__ = ["configure_run", "register_commands", "register_hookspecs", "register_run_options"]


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add ``patchcore migrate`` and ``patchcore ops``."""
    from npu_migrate.migrate import command as migrate
    from npu_migrate.ops import command as ops  # imported by the command line only

    migrate.add_parser(subparsers)
    ops.add_parser(subparsers)


@pc.hookimpl
def register_hookspecs() -> Any:
    """Return the hook through which other plugins add rules for ``patchcore migrate``."""
    return hookspecs


@pc.hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--trace-operators``."""
    run_options.register_options(parser)


@pc.hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Trace operators in this process, if the run does."""
    run_options.configure(options)
