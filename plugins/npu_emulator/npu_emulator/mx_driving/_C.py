"""Stand-in for the compiled module ``mx_driving._C`` (mx-driving 26.2): the functions that patches call there."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._voxels import grid_size, require_packable, voxel_of_points

LAYOUTS = ("XYZ", "ZYX")


def hard_voxelize(
    points: Tensor,
    voxel_sizes: Sequence[float],
    coor_ranges: Sequence[float],
    max_points: int,
    max_voxels: int,
    layout: str,
) -> tuple[int, Tensor, Tensor, Tensor]:
    """Gather points by voxel: the first ``max_points`` of each, for the first ``max_voxels`` that occur.

    Args:
        points: shape (n, features), x, y and z first; on the device float32.
        voxel_sizes: size of a voxel along x, y and z, in the unit of the points.
        coor_ranges: x, y and z of the lower, then of the upper end of the grid; other points are left out.
        max_points: at most 1000 on the device.
        max_voxels: the voxels after these are left out.
        layout: ``XYZ`` or ``ZYX``, the order of the returned coordinates; mmcv has ``ZYX``.

    Returns:
        The number of voxels; their points, zero where there are fewer, of shape (voxels, max_points, features); their
        coordinates, int32 of shape (voxels, 3); the number of points in each, int32 of shape (voxels,).

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: an argument has another form than described.
    """
    _check_points("hard_voxelize", points)
    if layout not in LAYOUTS:
        raise ValueError(f"mx_driving._C.hard_voxelize: expected a layout of {', '.join(LAYOUTS)}, found {layout!r}")
    grid = grid_size(voxel_sizes, coor_ranges)
    limits.require(max_points <= 1000, "_C.hard_voxelize", "at most 1000 points per voxel", max_points)
    require_packable("_C.hard_voxelize", grid)
    calls["hard_voxelize"] += 1

    voxel, inside = voxel_of_points(points, voxel_sizes, coor_ranges[:3], grid)
    points, voxel = points[inside], voxel[inside]
    coordinates, voxel_of_point = voxel.unique(dim=0, return_inverse=True)
    # Voxels are numbered as they occur, so that those which are left out are the last.
    first = torch.full((len(coordinates),), len(points), device=points.device)
    order = torch.arange(len(points), device=points.device)
    first.scatter_reduce_(0, voxel_of_point, order, "amin")
    by_occurrence = first.argsort()
    number = torch.empty_like(by_occurrence)
    number[by_occurrence] = torch.arange(len(coordinates), device=points.device)

    kept_voxels = min(len(coordinates), max_voxels)
    voxel_of_point = number[voxel_of_point]
    place = _rank_within(voxel_of_point)
    kept = (voxel_of_point < kept_voxels) & (place < max_points)
    gathered = points.new_zeros(kept_voxels, max_points, points.shape[1])
    gathered[voxel_of_point[kept], place[kept]] = points[kept]
    counts = torch.bincount(voxel_of_point[kept], minlength=kept_voxels)

    coordinates = coordinates[by_occurrence[:kept_voxels]].int()
    if layout == "ZYX":
        coordinates = coordinates.flip(1)
    return kept_voxels, gathered, coordinates, counts.int()


def dynamic_voxelization(
    points: Tensor,
    coors: Tensor,
    grid_x: int,
    grid_y: int,
    grid_z: int,
    voxel_x: float,
    voxel_y: float,
    voxel_z: float,
    coors_min_x: float,
    coors_min_y: float,
    coors_min_z: float,
) -> Tensor:
    """Find the voxel that each point lies in.

    Args:
        points: shape (n, features), x, y and z first; on the device float32.
        coors: receives the result and **is transposed in place**, int32 of shape (3, n).
        grid_x: number of voxels along x; so are grid_y and grid_z.
        grid_y: likewise.
        grid_z: likewise.
        voxel_x: size of a voxel along x, in the unit of the points; so are voxel_y and voxel_z.
        voxel_y: likewise.
        voxel_z: likewise.
        coors_min_x: lower end of the grid; so are coors_min_y and coors_min_z.
        coors_min_y: likewise.
        coors_min_z: likewise.

    Returns:
        ``coors``, now of shape (n, 3): z, y and x of the voxels, -1 for points outside the grid.

    Raises:
        ValueError: an argument has another form than described.
    """
    _check_points("dynamic_voxelization", points)
    if tuple(coors.shape) != (3, len(points)) or coors.dtype != torch.int32:
        raise ValueError(
            f"mx_driving._C.dynamic_voxelization: expected coors of shape (3, {len(points)}) and int32, found "
            f"{tuple(coors.shape)} and {coors.dtype}"
        )
    calls["dynamic_voxelization"] += 1
    origin = (coors_min_x, coors_min_y, coors_min_z)
    voxel, _ = voxel_of_points(points, (voxel_x, voxel_y, voxel_z), origin, (grid_x, grid_y, grid_z))
    return coors.copy_(voxel.flip(1).T).transpose_(0, 1)


def _rank_within(group: Tensor) -> Tensor:
    """Return how many earlier elements are in the same group, for each element of a tensor of group numbers."""
    order = group.argsort(stable=True)
    sizes = torch.bincount(group)
    start = sizes.cumsum(0) - sizes
    rank = torch.empty_like(group)
    rank[order] = torch.arange(len(group), device=group.device) - start[group[order]]
    return rank


def _check_points(kernel: str, points: Tensor) -> None:
    if points.dim() != 2 or points.shape[1] < 3:
        raise ValueError(
            f"mx_driving._C.{kernel}: expected points of shape (n, 3 or more), found {tuple(points.shape)}"
        )
