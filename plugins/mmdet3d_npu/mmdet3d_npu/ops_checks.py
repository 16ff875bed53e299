"""Cases for the patches of :mod:`mmdet3d_npu.ops`."""

from __future__ import annotations

import random

import patchcore as pc
from mmcv_npu.checks import drawing
from mmcv_npu.checks.voxelization import points_in_grid


def hard_voxelization(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw points and a grid, with limits that leave points and voxels out in some cases."""
    most = size.draw(rng, small=(1, 200), typical=(2000, 20000))
    return _voxelization(rng, size, max_points=rng.randint(1, 5), max_voxels=most)


def dynamic_voxelization(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw points and a grid; every point gets its voxel."""
    return _voxelization(rng, size, max_points=-1, max_voxels=-1)


def view_pooling(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw the features of some cameras and their places, a part of them outside the grid."""
    import torch
    from mmdet3d.models.necks.view_transformer import LSSViewTransformer

    generator = drawing.generator(rng)
    channels = size.draw(rng, small=(1, 16), typical=(32, 80))
    interval = rng.uniform(0.5, 2.0)
    # limits on the grid's lines, so that there are whole cells
    limits = {axis: [-cells * interval, cells * interval, interval] for axis, cells in _half_cells(rng, size)}
    transformer = LSSViewTransformer(
        grid_config={**limits, "depth": [1.0, 5.0, 1.0]},
        input_size=(32, 32),
        downsample=16,
        in_channels=4,
        out_channels=channels,
    )
    # one sample: mmdet3d 1.0.0rc6 fails on more ("view size is not compatible")
    image = [size.draw(rng, small=(1, 4), typical=(8, 22)) for _ in "hw"]
    points = (1, size.draw(rng, small=(1, 3), typical=(6, 6)), 4, *image)
    upper = torch.tensor([limits[axis][1] for axis in "xyz"])
    places = (2 * torch.rand(*points, 3, generator=generator) - 1) * upper * rng.choice((0.9, 1.5))
    features = torch.randn(*points, channels, generator=generator, requires_grad=True)
    return pc.Case(transformer.voxel_pooling, [places, features])


def _half_cells(rng: random.Random, size: pc.Size) -> list[tuple[str, int]]:
    return [(axis, size.draw(rng, small=(1, 6), typical=(32, 64))) for axis in "xy"] + [("z", rng.randint(1, 2))]


def _voxelization(rng: random.Random, size: pc.Size, max_points: int, max_voxels: int) -> pc.Case:
    from mmdet3d.models.data_preprocessors import voxelize

    # called as VoxelizationByGridShape calls it
    return pc.Case(voxelize.voxelization, [*points_in_grid(rng, size), max_points, max_voxels, True])
