"""Voxelization of point clouds on the kernels of mx_driving (distribution mx-driving 26.2) where they fit.

The kernels take float32; a grid of at most 2048 x 2048 x 256 voxels and 1000 points per voxel in the hard kind. A last
voxel that the range cuts in half is counted by one library and not by the other: such a grid stays with mmcv, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import patchcore as pc
from mmcv_npu import kernels

#: The largest grid along x, y and z, and the most points of a voxel, that the kernel takes.
LARGEST_GRID = (2048, 2048, 256)
MOST_POINTS = 1000


def forward_fits(
    ctx: Any,
    points: Any,
    voxel_size: Sequence[float],
    coors_range: Sequence[float],
    max_points: int = 35,
    max_voxels: int = 20000,
    deterministic: bool = True,
) -> bool:
    """Return whether a kernel takes this call, see :func:`forward`."""
    import torch

    if not kernels.takes(points) or points.dtype != torch.float32 or points.dim() != 2 or points.shape[1] < 3:
        return False
    if len(points) == 0 or not _have_extent(voxel_size):
        return True  # for forward to answer or refuse
    grid = _extent(voxel_size, coors_range)
    if any(abs(extent % 1 - 0.5) < 1e-3 for extent in grid):
        return False
    if _is_dynamic(max_points, max_voxels):
        return True
    within = all(round(extent) <= largest for extent, largest in zip(grid, LARGEST_GRID))
    return within and 0 < max_points <= MOST_POINTS and max_voxels > 0


def forward(
    ctx: Any,
    points: Any,
    voxel_size: Sequence[float],
    coors_range: Sequence[float],
    max_points: int = 35,
    max_voxels: int = 20000,
    deterministic: bool = True,
) -> Any:
    """Replace ``_Voxelization.forward``: run the kernel of hard or of dynamic voxelization.

    Args:
        ctx: autograd context; nothing is saved, there is no backward pass.
        points: (points, 3 or more features), x, y and z first.
        voxel_size: size of a voxel along x, y and z, in the unit of the points.
        coors_range: x, y and z of the lower, then of the upper end of the grid.
        max_points: most points of a voxel; -1 for dynamic voxelization.
        max_voxels: most voxels; -1 for dynamic voxelization.
        deterministic: the kernel is, in any case.

    Returns:
        Hard: (voxels, max_points, features), zero where there are fewer points; (voxels, 3) int32, z, y and x of each
        voxel; (voxels,) int32, its number of points. Dynamic: (points, 3) int32, z, y and x of each point's voxel, -1
        outside the grid.

    Raises:
        ValueError: a voxel has no size.
    """
    import torch
    from mx_driving import _C

    _check(voxel_size)
    if len(points) == 0:  # the kernels take no empty cloud
        nothing = points.new_zeros((0, 3), dtype=torch.int32)
        if _is_dynamic(max_points, max_voxels):
            return nothing
        return points.new_zeros((0, max_points, points.shape[1])), nothing, nothing[:, 0].clone()
    size = [float(one) for one in voxel_size]
    limits = [float(one) for one in coors_range]
    if not _is_dynamic(max_points, max_voxels):
        return _C.hard_voxelize(points, size, limits, max_points, max_voxels, "ZYX")[1:]
    coordinates = points.new_zeros((3, len(points)), dtype=torch.int32)
    grid = [round(extent) for extent in _extent(size, limits)]
    return _C.dynamic_voxelization(points, coordinates, *grid, *size, *limits[:3])


def _is_dynamic(max_points: int, max_voxels: int) -> bool:
    return max_points == -1 or max_voxels == -1


def _extent(voxel_size: Sequence[float], coors_range: Sequence[float]) -> list[float]:
    """The size of the range in voxels along x, y and z."""
    return [float(coors_range[3 + axis] - coors_range[axis]) / float(voxel_size[axis]) for axis in range(3)]


def _have_extent(voxel_size: Sequence[float]) -> bool:
    return all(0 < float(size) < math.inf for size in voxel_size)


def _check(voxel_size: Sequence[float]) -> None:
    if not _have_extent(voxel_size):
        raise ValueError(
            "voxelization on the NPU (patch mmcv.voxelization of mmcv-npu-patches): expected voxels of a positive size "
            f"along x, y and z, found voxel_size={list(voxel_size)}; correct voxel_size in the configuration, or "
            "leave the call to mmcv (--disable mmcv.voxelization)"
        )


VOXELIZATION = pc.Patch(
    "mmcv.voxelization",
    [pc.Replace("mmcv.ops.voxelize:_Voxelization.forward", forward, when_call=forward_fits)],
    summary="hard and dynamic voxelization on the mx_driving kernels",
    requires="mmcv>=1.3.16,<3",  # the first that has the operator
    when=kernels.operators_are_built,
    needs="mx_driving",
    legacy_names=["voxelization", "Voxelization"],
    default=False,
    checks=[
        pc.Check("mmcv_npu.checks.voxelization:hard", dtypes={"float32": 0.0}),
        pc.Check("mmcv_npu.checks.voxelization:dynamic", dtypes={"float32": 0.0}),
    ],
)
