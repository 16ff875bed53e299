"""The option that ``patchcore ops`` adds to ``patchcore run``: ``--trace-operators``."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["configure", "register_options"]


def register_options(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--trace-operators",
        type=Path,
        metavar="DIR",
        help="write the operators of torch that each process runs into a file there (see patchcore ops)",
    )


def configure(options: argparse.Namespace) -> None:
    """Trace this process, if the run does."""
    if options.trace_operators is not None:
        from npu_migrate.ops.tracing import trace_process

        trace_process(options.trace_operators)
