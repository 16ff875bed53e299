"""The entry point: every patch of this distribution."""

from __future__ import annotations

import patchcore as pc
from torch_npu_patches import numpy_compat, tensor_index

PATCHES = (numpy_compat.NUMPY_COMPAT, tensor_index.TENSOR_INDEX)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return PATCHES
