"""Sorting points into voxels, for the kernels that do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from npu_emulator import limits

# The bound of the 30 bits into which the device packs a voxel's place (documented for dynamic_scatter).
LARGEST_GRID = (2048, 2048, 256)


def grid_size(voxel_size: Sequence[float], coors_range: Sequence[float]) -> tuple[int, int, int]:
    """Return how many voxels fit in a range, along x, y and z; an incomplete one is rounded.

    Args:
        voxel_size: size of a voxel along x, y and z, in the unit of the points.
        coors_range: x, y and z of the lower, then of the upper end.

    Raises:
        ValueError: not three positive sizes, or not six limits.
    """
    if len(voxel_size) != 3 or len(coors_range) != 6 or min(voxel_size) <= 0:
        raise ValueError(
            "mx_driving voxelization: expected three positive voxel sizes and six limits of the range, found "
            f"{list(voxel_size)} and {list(coors_range)}"
        )
    x, y, z = (round((coors_range[3 + axis] - coors_range[axis]) / voxel_size[axis]) for axis in range(3))
    return x, y, z


def voxel_of_points(
    points: Tensor, voxel_size: Sequence[float], origin: Sequence[float], grid: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Find the voxel that each point lies in.

    Args:
        points: shape (n, 3 or more), x, y and z first.
        voxel_size: along x, y and z.
        origin: lower end of the grid.
        grid: number of voxels along x, y and z.

    Returns:
        (x, y, z) of the voxels, int64 of shape (n, 3), and whether they are in the grid, shape (n,).
    """
    options = {"dtype": points.dtype, "device": points.device}
    place = (points[:, :3] - torch.tensor(origin, **options)) / torch.tensor(voxel_size, **options)
    voxel = place.floor()
    inside = ((voxel >= 0) & (voxel < torch.tensor(grid, **options))).all(dim=1)
    # NaN, and numbers too large for an integer, are outside.
    return torch.where(inside.unsqueeze(1), voxel, -1).long(), inside


def require_packable(kernel: str, grid: Sequence[int]) -> None:
    """Raise a LimitError unless the device can number the voxels of a grid."""
    fits = all(size <= largest for size, largest in zip(grid, LARGEST_GRID))
    limits.require(fits, kernel, f"at most {' x '.join(map(str, LARGEST_GRID))} voxels (x, y, z)", tuple(grid))
