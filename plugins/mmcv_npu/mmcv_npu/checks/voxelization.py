"""Random calls of voxelization, hard and dynamic.

No point lies on the border of two voxels, where rounding would decide.
"""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import drawing


def hard(rng: random.Random) -> pc.Case:
    """Draw a call that gathers points by voxel; sometimes more than a voxel or the result takes."""
    from mmcv.ops.voxelize import voxelization

    return pc.Case(voxelization, [*points_in_grid(rng), rng.randint(1, 5), rng.choice((1, 8, 200)), True])


def dynamic(rng: random.Random) -> pc.Case:
    """Draw a call that tells the voxel of each point."""
    from mmcv.ops.voxelize import voxelization

    return pc.Case(voxelization, [*points_in_grid(rng), -1, -1, True])


def points_in_grid(rng: random.Random) -> tuple[Any, tuple[float, ...], tuple[float, ...]]:
    """Return points (points, features), the size of a voxel, and the lower and upper ends of the grid."""
    import torch

    count, features = rng.choice((1, 2, 50, 200)), rng.randint(3, 6)
    grid = [rng.randint(1, 6) for _ in range(3)]
    size = [rng.choice((0.16, 0.25, 1.0, 4.0)) for _ in range(3)]
    lower = [rng.choice((-51.2, -3.0, 0.0)) for _ in range(3)]
    upper = [start + number * extent for start, number, extent in zip(lower, grid, size)]
    # one voxel more at either end lies outside
    voxels = torch.stack([drawing.within_pixels(rng, -1, number, count) for number in grid], dim=1)
    places = voxels * torch.tensor(size) + torch.tensor(lower)
    points = torch.cat((places, drawing.normal(rng, count, features - 3)), dim=1)
    return points, tuple(size), (*lower, *upper)
