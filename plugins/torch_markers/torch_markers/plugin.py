"""The entry point: the patches, the options and the command of the markers."""

from __future__ import annotations

import argparse
from typing import Any

import patchcore as pc
from torch_markers import command
from torch_markers.patches import MARKERS

__all__ = ["PATCHES", "configure_run", "register_commands", "register_patches", "register_run_options"]

#: Those without options.
PATCHES = MARKERS


@pc.hookimpl
def register_patches(settings: pc.Settings) -> tuple[pc.Patch, ...]:
    """Return the patches, which are applied only if a user wants markers."""
    return command.configured_patches(settings)


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add ``patchcore markers``."""
    command.register_command(subparsers)


@pc.hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--markers`` with its further options."""
    command.register_options(parser)


@pc.hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Mark in this process, if the run does."""
    command.configure(options)
