"""Operators on points under their old name; deprecated in mx_driving."""

from __future__ import annotations

import warnings

from npu_emulator.mx_driving.modules.voxelization import Voxelization
from npu_emulator.mx_driving.ops.bev_pool import bev_pool
from npu_emulator.mx_driving.ops.bev_pool_v2 import bev_pool_v2
from npu_emulator.mx_driving.ops.bev_pool_v3 import bev_pool_v3
from npu_emulator.mx_driving.ops.furthest_point_sampling import furthest_point_sampling
from npu_emulator.mx_driving.ops.group_points import group_points
from npu_emulator.mx_driving.ops.npu_dynamic_scatter import npu_dynamic_scatter
from npu_emulator.mx_driving.ops.voxelization import voxelization

__all__ = [
    "Voxelization",
    "bev_pool",
    "bev_pool_v2",
    "bev_pool_v3",
    "furthest_point_sampling",
    "group_points",
    "npu_dynamic_scatter",
    "voxelization",
]

warnings.warn("mx_driving.point is deprecated, use mx_driving", DeprecationWarning, stacklevel=2)
