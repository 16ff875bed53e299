"""The entry point: every patch of this distribution. Nothing here imports torch or diffusers."""

from __future__ import annotations

import patchcore as pc
from diffusers_npu import attention, layers

PATCHES = (layers.GEGLU, layers.RMS_NORM, attention.DISPATCHER, *attention.MODULES)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return PATCHES
