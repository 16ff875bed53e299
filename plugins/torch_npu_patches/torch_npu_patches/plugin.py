"""The entry point: every patch of this distribution."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

import patchcore as pc
from torch_npu_patches import (
    batch_matmul,
    collections_compat,
    conjugated_copies,
    error_messages,
    fused_adamw,
    internal_format,
    numpy_compat,
    process_groups,
    tensor_index,
    torch_scatter,
    transfer_to_npu,
    wrapping,
)
from torch_npu_patches.cuda_names import unedited
from torch_npu_patches.cuda_names.patches import CUDA_NAMES
from torch_npu_patches.cuda_names.reporting import describe, sections

if TYPE_CHECKING:
    from patchcore import Plan

PATCHES = (
    collections_compat.COLLECTIONS_COMPAT,
    numpy_compat.NUMPY_COMPAT,
    internal_format.INTERNAL_FORMAT,
    wrapping.COMPILE,
    tensor_index.TENSOR_INDEX,
    batch_matmul.BATCH_MATMUL,
    conjugated_copies.CONJUGATED_COPIES,
    fused_adamw.FUSED_ADAMW_STEP,
    torch_scatter.TORCH_SCATTER,
    *transfer_to_npu.TRANSFER_TO_NPU,
    *CUDA_NAMES,
)


@pc.hookimpl
def register_patches(settings: pc.Settings) -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    options = settings.options.get(internal_format.NAME)
    if not options:
        return PATCHES
    configured = internal_format.make_patch(options)
    return tuple(configured if patch.name == configured.name else patch for patch in PATCHES)


@pc.hookimpl
def advise(name: str, command: str) -> Optional[str]:
    """Return advice on a missing module that this plugin stands in for, and on an error that has ended a program."""
    if command == "error":
        return error_messages.advise_on_error(name)
    if command != "import":
        return None
    if name.partition(".")[0] == "apex":
        return f"apex.amp on torch.amp: patchcore run --enable {transfer_to_npu.APEX}"
    return error_messages.advise_on_module(name)


@pc.hookimpl(optionalhook=True)  # of the built-in plugin run, which may be left out
def process_patched(patcher: pc.Patcher) -> None:
    """Add the hook that keeps comparisons with ``"cuda"`` in code that cannot be edited, if the program is edited."""
    if any(entry.patch is CUDA_NAMES[0] and entry.verdict == "apply" for entry in patcher.applied_plan or ()):
        unedited.start()


@pc.hookimpl(optionalhook=True)  # of the built-in plugin run, which may be left out
def conclusions(plan: Plan) -> Iterator[str]:
    """Return where CUDA calls were moved to, and which backend serves NPU tensors if a collective had none."""
    yield from process_groups.describe_missing_backend(plan)
    yield from transfer_to_npu.describe_move(plan)
    yield from describe()


@pc.hookimpl
def report_sections() -> Iterator[pc.Section]:
    """List the lines that use CUDA, the calls in their place, and the names of torch.cuda without a counterpart."""
    late = transfer_to_npu.changed_too_late()
    if late is not None:
        yield pc.Section("visible devices", (late,), data=late)
    vendor = transfer_to_npu.vendor_adapter()
    if vendor:
        yield pc.Section("torch_npu's own adapter", (vendor,), data=vendor)
    sites = transfer_to_npu.audit.sites()
    if sites:
        lines = tuple(map(str, sites))
        yield pc.Section("Lines that use CUDA", lines, data=transfer_to_npu.audit.details())
    yield from sections()
    if "torch_npu" in sys.modules and transfer_to_npu.audit.is_active():
        uses = transfer_to_npu.uses_without_counterpart()
        if uses:
            data = [use._asdict() for use in uses]
            yield pc.Section("torch.cuda without an NPU counterpart", tuple(map(str, uses)), data=data)
