"""Voxelization (mx-driving 26.2, ``mx_driving/ops/voxelization.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import torch
from torch import Tensor
from torch.autograd import Function

from npu_emulator.mx_driving._C import dynamic_voxelization, hard_voxelize
from npu_emulator.mx_driving._voxels import grid_size


class _Voxelization(Function):
    """Voxelization, hard or dynamic; it can not be differentiated."""

    @staticmethod
    def forward(
        ctx: Any,
        points: Tensor,
        voxel_size: Sequence[float],
        coors_range: Sequence[float],
        max_points: int = -1,
        max_voxels: int = -1,
        deterministic: bool = True,
        layout: str = "XYZ",
    ) -> Union[Tensor, tuple[int, Tensor, Tensor, Tensor]]:
        """Sort points into voxels.

        Args:
            ctx: the autograd context.
            points: shape (n, features), x, y and z first; on the device float32. Not empty.
            voxel_size: size of a voxel along x, y and z, in the unit of the points.
            coors_range: x, y and z of the lower, then of the upper end of the grid.
            max_points: of one voxel, or -1.
            max_voxels: voxels to return, or -1.
            deterministic: ignored, as in mx_driving.
            layout: order of the coordinates that hard voxelization returns; dynamic has ZYX whatever is given here.

        Returns:
            The result of :func:`npu_emulator.mx_driving._C.hard_voxelize` where neither maximum is -1 (mmcv's function
            has not the number in front), else that of :func:`npu_emulator.mx_driving._C.dynamic_voxelization`.

        Raises:
            LimitError: the arguments are outside the limits of the device.
            ValueError: there are no points, or an argument has another form than described. (mx_driving only prints
                a message about a voxel size of zero, and divides by it.)
        """
        if len(points) == 0:
            raise ValueError("mx_driving.voxelization: expected points, found none")
        if max_points != -1 and max_voxels != -1:
            return hard_voxelize(points, voxel_size, coors_range, max_points, max_voxels, layout)
        grid = grid_size(voxel_size, coors_range)
        coors = points.new_zeros(size=(3, len(points)), dtype=torch.int32)
        return dynamic_voxelization(points, coors, *grid, *voxel_size, *coors_range[:3])


# Bound as in mx_driving: positional arguments only.
voxelization = _Voxelization.apply
