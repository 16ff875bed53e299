"""The entry point: every patch of this distribution. Nothing here imports torch or diffusers."""

from __future__ import annotations

import patchcore as pc
from diffusers_npu import attention, layers, own_softmax, processors

PATCHES = (
    layers.GEGLU,
    layers.RMS_NORM,
    attention.DISPATCHER,
    *attention.MODULES,
    attention.MASK_ROWS,
    *own_softmax.PATCHES,
    processors.FLUX_PROCESSOR,
)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return PATCHES
