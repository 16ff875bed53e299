"""Which points are in which boxes (mx-driving 26.2, ``mx_driving/ops/npu_points_in_box_all.py``)."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from npu_emulator.mx_driving._counting import calls


def points_in_boxes_all(boxes: Tensor, pts: Tensor) -> Tensor:
    """Return which points are in which boxes.

    Args:
        boxes: (x, y, z, dx, dy, dz, angle), z at the **bottom** and the angle counterclockwise in radians, shape
            (b, m, 7); on the device float32.
        pts: shape (b, n, 3).

    Returns:
        1 or 0, int32 of shape (b, n, m). A point on the top or bottom is inside, on another side outside.

    Raises:
        ValueError: the tensors have another shape than described.
    """
    check_boxes_and_points("points_in_boxes_all", boxes, pts)
    calls["points_in_boxes_all"] += 1
    return inside(boxes, pts).int()


def npu_points_in_box_all(boxes: Tensor, pts: Tensor) -> Tensor:
    """Same as :func:`points_in_boxes_all`; deprecated in mx_driving."""
    warnings.warn(
        "mx_driving.npu_points_in_box_all is deprecated, use mx_driving.points_in_boxes_all",
        DeprecationWarning,
        stacklevel=2,
    )
    return points_in_boxes_all(boxes, pts)


@torch.no_grad()
def inside(boxes: Tensor, pts: Tensor) -> Tensor:
    """Compute the result of :func:`points_in_boxes_all`, as booleans."""
    x, y, z = (pts.unsqueeze(2) - boxes[..., :3].unsqueeze(1)).unbind(dim=-1)
    half_x, half_y, half_z = (boxes[..., 3:6] / 2).unsqueeze(1).unbind(dim=-1)
    angle = boxes[..., 6].unsqueeze(1)
    # The point in the axes of the box, which is turned back.
    along_x = x * angle.cos() + y * angle.sin()
    along_y = y * angle.cos() - x * angle.sin()
    return ((z - half_z).abs() <= half_z) & (along_x.abs() < half_x) & (along_y.abs() < half_y)


def check_boxes_and_points(kernel: str, boxes: Tensor, pts: Tensor) -> None:
    """Check the shapes of boxes and points.

    Raises:
        ValueError: they are others than (b, m, 7) and (b, n, 3).
    """
    shapes = tuple(boxes.shape), tuple(pts.shape)
    if len(shapes[0]) != 3 or len(shapes[1]) != 3 or shapes[0][::2] != (shapes[1][0], 7) or shapes[1][2] != 3:
        raise ValueError(
            f"mx_driving.{kernel}: expected boxes of shape (b, m, 7) and points of shape (b, n, 3), found {shapes[0]} "
            f"and {shapes[1]}"
        )
