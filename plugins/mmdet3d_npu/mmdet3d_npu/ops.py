"""Operators of which mmdet3d ships a copy of its own, on the kernels of mx_driving where they fit.

mmdet3d takes its operators from mmcv, sparse convolution too; the patches of mmcv-npu-patches reach those, re-exports
such as ``mmdet3d.ops:Voxelization`` of 1.0 included. Two are its own: the voxelization of its data preprocessor, since
1.1, which hands its tensors to mmcv's compiled module by itself, and the pooling of ``LSSViewTransformer`` in 1.0.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from mmcv_npu import kernels, voxelization

#: The most channels, and the most elements of the view, that the kernel of bev_pool takes (mx-driving 26.2).
MOST_CHANNELS = 1024
LARGEST_VIEW = 2**31


def voxel_pooling_fits(transformer: Any, coor: Any, x: Any) -> bool:
    """Return whether the kernel takes this call, see :func:`voxel_pooling`."""
    import torch

    batch, channels = x.shape[0], x.shape[-1]
    cells = int(transformer.grid_size.long().prod())
    return (
        kernels.takes(x)
        and x.dtype is torch.float32
        and channels <= MOST_CHANNELS
        and batch * channels * cells <= LARGEST_VIEW
    )


def voxel_pooling(self: Any, coor: Any, x: Any) -> Any:
    """Replace ``LSSViewTransformer.voxel_pooling`` (mmdet3d 1.0.0rc6): add the features of each cell up in one kernel.

    The original sorts the points by cell, and takes differences of the running sum over all of them. It fails on a
    device, where it indexes a list that it has left on the CPU, and with more than one sample; this one does not.

    Args:
        self: the view transformer; ``grid_size``, ``grid_lower_bound`` and ``grid_interval`` are those along x, y, z.
        coor: where each feature lies, in metres, (batch, cameras, depths, height, width, 3).
        x: (batch, cameras, depths, height, width, channels).

    Returns:
        (batch, z cells * channels, y cells, x cells).
    """
    import torch
    from mx_driving import bev_pool

    batch, channels = x.shape[0], x.shape[-1]
    grid_size = self.grid_size.long().to(coor.device)
    # towards zero, as in mmdet3d: a point less than one cell below the grid counts as in the first
    place = ((coor - self.grid_lower_bound.to(coor)) / self.grid_interval.to(coor)).long().view(-1, 3)
    image = torch.arange(batch, device=coor.device).repeat_interleave(len(place) // batch)
    inside = ((place >= 0) & (place < grid_size)).all(dim=1)

    cell_x, cell_y, cell_z = place.unbind(dim=1)
    cells = torch.stack((cell_y, cell_x, cell_z, image), dim=1)[inside].int()
    features = x.reshape(-1, channels)[inside]
    width, height, depth = grid_size.tolist()
    if len(features) > 0:
        view = bev_pool(features, cells, batch, depth, height, width)
    else:  # the kernel wants some; the sum of none keeps the graph that a backward pass expects
        view = features.new_zeros(batch, channels, depth, height, width) + features.sum()
    return view.transpose(1, 2).flatten(1, 2)


VOXELIZATION = pc.Patch(
    "mmdet3d.voxelization",
    [
        pc.Replace(
            "mmdet3d.models.data_preprocessors.voxelize:_Voxelization.forward",
            voxelization.forward,
            when_call=voxelization.forward_fits,
        )
    ],
    summary="mmdet3d's own hard and dynamic voxelization on the mx_driving kernels",
    requires="mmdet3d>=1.1,<2",
    needs="mx_driving",
    default=False,
    checks=[
        pc.Check("mmdet3d_npu.ops_checks:hard_voxelization", dtypes={"float32": 0.0}),
        pc.Check("mmdet3d_npu.ops_checks:dynamic_voxelization", dtypes={"float32": 0.0}),
    ],
)

BEV_POOL = pc.Patch(
    "mmdet3d.bev_pool",
    [
        pc.Replace(
            "mmdet3d.models.necks.view_transformer:LSSViewTransformer.voxel_pooling",
            voxel_pooling,
            when_call=voxel_pooling_fits,
        )
    ],
    summary="pooling of LSSViewTransformer in one kernel of mx_driving",
    requires="mmdet3d>=1.0.0rc6,<1.1",
    needs="mx_driving",
    default=False,
    # the original takes differences of a running sum over all points
    checks=pc.Check("mmdet3d_npu.ops_checks:view_pooling", dtypes={"float32": 1e-5}),
)
