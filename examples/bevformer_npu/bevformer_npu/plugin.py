"""The entry point: the patches of this model, besides those of the libraries that it is made of."""

from __future__ import annotations

import patchcore as pc
from bevformer_npu.deformable_attention import DEFORMABLE_ATTENTION
from bevformer_npu.spatial_cross_attention import SPATIAL_CROSS_ATTENTION


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return (DEFORMABLE_ATTENTION, SPATIAL_CROSS_ATTENTION)
