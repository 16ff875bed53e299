"""In which box points are (mx-driving 26.2, ``mx_driving/ops/npu_points_in_box.py``)."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving.ops.npu_points_in_box_all import check_boxes_and_points, inside


class PointsInBoxFunction(Function):
    """The first box that each point is in. It has no gradient."""

    @staticmethod
    def forward(ctx: Any, boxes: Tensor, pts: Tensor) -> Tensor:
        """Find boxes.

        Args:
            ctx: the autograd context.
            boxes: as for points_in_boxes_all; on the device there is one batch.
            pts: likewise.

        Returns:
            The number of the box, or -1, int32 of shape (b, n).

        Raises:
            LimitError: the arguments are outside the limits of the device.
            ValueError: the tensors have another shape than described.
        """
        check_boxes_and_points("points_in_box", boxes, pts)
        limits.require(len(boxes) == 1, "points_in_box", "one batch", len(boxes))
        calls["points_in_box"] += 1
        if boxes.shape[1] == 0:
            return pts.new_full(pts.shape[:2], -1, dtype=torch.int32)
        found = inside(boxes, pts)
        return torch.where(found.any(dim=2), found.int().argmax(dim=2), -1).int()


# Bound as in mx_driving: positional arguments only.
points_in_box = PointsInBoxFunction.apply


def npu_points_in_box(boxes: Tensor, pt: Tensor) -> Tensor:
    """Same as :func:`points_in_box`; deprecated in mx_driving."""
    warnings.warn(
        "mx_driving.npu_points_in_box is deprecated, use mx_driving.points_in_box", DeprecationWarning, stacklevel=2
    )
    return points_in_box(boxes, pt)
