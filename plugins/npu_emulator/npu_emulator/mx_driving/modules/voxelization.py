"""Voxelization as a module (mx-driving 26.2, ``mx_driving/modules/voxelization.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from torch import Tensor, nn

from npu_emulator.mx_driving.ops.voxelization import voxelization


class Voxelization(nn.Module):
    """Sorts points into voxels.

    Args:
        voxel_size: size of a voxel along x, y and z, in the unit of the points.
        point_cloud_range: x, y and z of the lower, then of the upper end of the grid.
        max_num_points: of one voxel; -1 for dynamic voxelization.
        max_voxels: voxels to return, one number or (in training, otherwise).
        deterministic: ignored, as in mx_driving.
        layout: ``XYZ`` or ``ZYX``, the order of the coordinates that hard voxelization returns.
    """

    def __init__(
        self,
        voxel_size: Sequence[float],
        point_cloud_range: Sequence[float],
        max_num_points: int,
        max_voxels: Union[int, tuple[int, int]] = 20000,
        deterministic: bool = True,
        layout: str = "XYZ",
    ) -> None:
        super().__init__()
        self.voxel_size = voxel_size
        self.point_cloud_range = point_cloud_range
        self.max_num_points = max_num_points
        self.max_voxels = (max_voxels, max_voxels) if isinstance(max_voxels, int) else max_voxels
        self.deterministic = deterministic
        self.layout = layout

    def forward(self, points: Tensor) -> Union[Tensor, tuple[int, Tensor, Tensor, Tensor]]:
        """Return the result of :class:`npu_emulator.mx_driving.ops.voxelization._Voxelization`."""
        max_voxels = self.max_voxels[0] if self.training else self.max_voxels[1]
        return voxelization(
            points,
            self.voxel_size,
            self.point_cloud_range,
            self.max_num_points,
            max_voxels,
            self.deterministic,
            self.layout,
        )
