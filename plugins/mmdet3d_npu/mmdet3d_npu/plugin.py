"""The entry point: every patch of this distribution."""

from __future__ import annotations

import patchcore as pc
from mmdet3d_npu import nuscenes_boxes, ops

PATCHES = (
    nuscenes_boxes.NUSCENES_DATASET,
    nuscenes_boxes.NUSCENES_METRIC,
    ops.VOXELIZATION,
    ops.BEV_POOL,
)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return PATCHES
