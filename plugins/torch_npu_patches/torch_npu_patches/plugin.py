"""The entry point: every patch of this distribution."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import patchcore as pc
from torch_npu_patches import (
    batch_matmul,
    collections_compat,
    fused_adamw,
    internal_format,
    numpy_compat,
    tensor_index,
    torch_scatter,
    transfer_to_npu,
    wrapping,
)
from torch_npu_patches.migrate import hookspecs

PATCHES = (
    collections_compat.COLLECTIONS_COMPAT,
    numpy_compat.NUMPY_COMPAT,
    internal_format.INTERNAL_FORMAT,
    wrapping.COMPILE,
    tensor_index.TENSOR_INDEX,
    batch_matmul.BATCH_MATMUL,
    fused_adamw.FUSED_ADAMW_STEP,
    torch_scatter.TORCH_SCATTER,
    *transfer_to_npu.TRANSFER_TO_NPU,
)


@pc.hookimpl
def register_patches(settings: pc.Settings) -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    options = settings.options.get(internal_format.NAME)
    if not options:
        return PATCHES
    chosen = internal_format.make_patch(options)
    return tuple(chosen if patch is internal_format.INTERNAL_FORMAT else patch for patch in PATCHES)


@pc.hookimpl
def report_sections() -> Iterator[pc.Section]:
    """Tell which lines of the program said CUDA, what they got, and what of torch.cuda has no counterpart."""
    sites = transfer_to_npu.audit.sites()
    if not sites:
        return
    yield pc.Section("CUDA arguments rewritten", tuple(map(str, sites)), data=transfer_to_npu.audit.details())
    if "torch_npu" in sys.modules:
        names = transfer_to_npu.without_counterpart()
        yield pc.Section("torch.cuda without an NPU counterpart", (", ".join(names),), data=names)


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add ``patchcore migrate`` and ``patchcore ops``."""
    from torch_npu_patches.coverage import command as ops
    from torch_npu_patches.migrate import command as migrate  # only where the command line asks

    migrate.add_parser(subparsers)
    ops.add_parser(subparsers)


@pc.hookimpl
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--trace-operators``."""
    parser.add_argument(
        "--trace-operators",
        type=Path,
        metavar="DIR",
        help="write the operators of torch that each process runs into a file there (see patchcore ops)",
    )


@pc.hookimpl
def configure_run(options: argparse.Namespace) -> None:
    """Trace this process, if the run does."""
    if options.trace_operators is not None:
        from torch_npu_patches.coverage.tracing import trace_process

        trace_process(options.trace_operators)


@pc.hookimpl
def register_hookspecs() -> Any:
    """Bring the hook through which other plugins add rules for ``patchcore migrate``."""
    return hookspecs
