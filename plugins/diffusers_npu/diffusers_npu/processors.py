"""Lets programs make Flux and Chroma of diffusers 0.35 where torch_npu is installed.

Their blocks call ``deprecate("npu_processor", "0.34.0", ...)`` there, which raises ``ValueError`` from 0.34 on, before
they choose a processor for NPUs. With the patch they choose the processor of other devices, which calls the attention
dispatcher. diffusers 0.36 does the same.
"""

from __future__ import annotations

import patchcore as pc

__all__ = ["FLUX_PROCESSOR", "no_npu"]


def no_npu() -> bool:
    """Return ``False``, in the place of ``is_torch_npu_available`` in the two modules."""
    return False


FLUX_PROCESSOR = pc.Patch(
    "diffusers.flux_processor",
    [
        pc.Replace(f"diffusers.models.transformers.transformer_{name}:is_torch_npu_available", no_npu)
        for name in ("flux", "chroma")
    ],
    summary="Flux and Chroma of diffusers 0.35, which fail when they are made: the processor of other devices",
    requires="diffusers>=0.35,<0.36",
    needs=["torch_npu"],
)
