"""Nearest neighbours (mx-driving 26.2, ``mx_driving/ops/knn.py``)."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import Function

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls


class Knn(Function):
    """The points nearest to centres. It has no gradient."""

    @staticmethod
    def forward(ctx: Any, k: int, xyz: Tensor, center_xyz: Optional[Tensor] = None, transposed: bool = False) -> Tensor:
        """Find neighbours.

        Args:
            ctx: the autograd context.
            k: how many; from 1 to 99 on the device.
            xyz: the points, shape (b, n, 3), or (b, 3, n) where transposed; on the device float32.
            center_xyz: whose neighbours are looked for, shape (b, m, 3), or (b, 3, m); the points themselves without.
            transposed: see above.

        Returns:
            Indices of the points, nearest first, int32 of shape (b, k, m). Of points at the same distance any may come
            first.

        Raises:
            LimitError: the arguments are outside the limits of the device. (mx_driving prints that and returns
                ``None``.)
            ValueError: the tensors have another shape than described, or there are fewer than k points.
        """
        center_xyz = xyz if center_xyz is None else center_xyz
        if transposed:
            xyz, center_xyz = xyz.transpose(1, 2), center_xyz.transpose(1, 2)
        shapes = tuple(xyz.shape), tuple(center_xyz.shape)
        if any(len(shape) != 3 or shape[2] != 3 or shape[0] != shapes[0][0] for shape in shapes) or shapes[0][1] < k:
            raise ValueError(
                f"mx_driving.knn: expected {k} or more points of three coordinates, and as many batches of centres, "
                f"found {shapes[0]} and {shapes[1]} (b, n, 3)"
            )
        limits.require(0 < k < 100, "knn", "k from 1 to 99", k)
        calls["knn"] += 1
        distance = (center_xyz.unsqueeze(2) - xyz.unsqueeze(1)).square().sum(dim=-1)
        nearest = torch.topk(distance, k, dim=-1, largest=False).indices
        return nearest.transpose(1, 2).contiguous().int()


# Bound as in mx_driving: positional arguments only.
knn = Knn.apply
