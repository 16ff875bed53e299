"""Random calls of voxelization, hard and dynamic.

No point lies on the border of two voxels, where rounding would decide.
"""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import drawing


def hard(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call that gathers points by voxel; sometimes more than a voxel or the result takes."""
    from mmcv.ops.voxelize import voxelization

    most = size.draw(rng, small=(1, 200), typical=(2000, 20000))
    return pc.Case(voxelization, [*points_in_grid(rng, size), rng.randint(1, 5), most, True])


def dynamic(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call that returns the voxel of each point."""
    from mmcv.ops.voxelize import voxelization

    return pc.Case(voxelization, [*points_in_grid(rng, size), -1, -1, True])


def points_in_grid(rng: random.Random, size: pc.Size) -> tuple[Any, tuple[float, ...], tuple[float, ...]]:
    """Return points (points, features), the size of a voxel, and the lower and upper ends of the grid."""
    import torch

    count, features = size.draw(rng, small=(1, 200), typical=(10000, 30000)), rng.randint(3, 6)
    grid = [size.draw(rng, small=(1, 6), typical=most) for most in ((100, 400), (100, 400), (1, 10))]
    extents = [rng.choice((0.16, 0.25, 1.0, 4.0)) for _ in range(3)]
    lower = [rng.choice((-51.2, -3.0, 0.0)) for _ in range(3)]
    upper = [start + number * extent for start, number, extent in zip(lower, grid, extents)]
    # one voxel more at either end lies outside
    voxels = torch.stack([drawing.within_pixels(rng, -1, number, count) for number in grid], dim=1)
    places = voxels * torch.tensor(extents) + torch.tensor(lower)
    points = torch.cat((places, drawing.normal(rng, count, features - 3)), dim=1)
    return points, tuple(extents), (*lower, *upper)
