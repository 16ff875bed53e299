"""Overlap of boxes in a bird's-eye view (mx-driving 26.2, ``mx_driving/ops/boxes_overlap_bev.py``)."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from npu_emulator import limits
from npu_emulator.mx_driving._boxes import overlap_area, rotated_corners
from npu_emulator.mx_driving._counting import calls

# Pairs of boxes (documented for boxes_overlap_bev).
MOST_PAIRS = 900_000_000


def boxes_overlap_bev(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    """Return the area that each box of one set shares with each of another, seen from above.

    Args:
        boxes_a: shape (n, 5): (x1, y1, x2, y2, angle), rotated **clockwise** about the centre, as in BEVFusion; or
            shape (n, 7): (x, y, z, dx, dy, dz, angle), rotated **counterclockwise**, as in mmcv and OpenPCDet. Angles
            in radians, from -pi to pi; on the device float32.
        boxes_b: shape (m, 5) or (m, 7), as boxes_a.

    Returns:
        Shape (n, m), without a gradient.

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: the boxes have another shape than described.
    """
    _check("boxes_overlap_bev", boxes_a, boxes_b, (5, 7))
    calls["boxes_overlap_bev"] += 1
    return _overlap(boxes_a, boxes_b).to(boxes_a.dtype)


def npu_boxes_overlap_bev(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    """Same as :func:`boxes_overlap_bev`; deprecated in mx_driving."""
    warnings.warn(
        "mx_driving.npu_boxes_overlap_bev is deprecated, use mx_driving.boxes_overlap_bev",
        DeprecationWarning,
        stacklevel=2,
    )
    return boxes_overlap_bev(boxes_a, boxes_b)


def boxes_iou_bev(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    """Return the area that boxes share, as a part of the area that they cover together.

    Args:
        boxes_a: shape (n, 7), as for :func:`boxes_overlap_bev`.
        boxes_b: shape (m, 7).

    Returns:
        Shape (n, m), without a gradient.

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: the boxes have another shape than described.
    """
    _check("boxes_iou_bev", boxes_a, boxes_b, (7,))
    calls["boxes_iou_bev"] += 1
    return iou(boxes_a, boxes_b).to(boxes_a.dtype)


def iou(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    """Compute the result of :func:`boxes_iou_bev`, in float64."""
    area_a, area_b = (boxes[:, 3].double() * boxes[:, 4].double() for boxes in (boxes_a, boxes_b))
    shared = _overlap(boxes_a, boxes_b)
    return shared / (area_a.unsqueeze(1) + area_b.unsqueeze(0) - shared).clamp(min=1e-8)


@torch.no_grad()
def _overlap(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    return overlap_area(_corners(boxes_a), _corners(boxes_b))


def _corners(boxes: Tensor) -> Tensor:
    if boxes.shape[1] == 7:
        return rotated_corners(boxes[:, :2], boxes[:, 3:5], boxes[:, 6])
    low, high, angle = boxes[:, :2].double(), boxes[:, 2:4].double(), boxes[:, 4]
    return rotated_corners((low + high) / 2, high - low, -angle)


def _check(kernel: str, boxes_a: Tensor, boxes_b: Tensor, columns: tuple[int, ...]) -> None:
    shapes = tuple(boxes_a.shape), tuple(boxes_b.shape)
    if any(len(shape) != 2 or shape[1] not in columns or shape[1] != shapes[0][1] for shape in shapes):
        expected = " or ".join(f"(n, {number})" for number in columns)
        raise ValueError(f"mx_driving.{kernel}: expected boxes of shape {expected}, found {shapes[0]} and {shapes[1]}")
    pairs = shapes[0][0] * shapes[1][0]
    limits.require(pairs <= MOST_PAIRS, kernel, f"at most {MOST_PAIRS} pairs", pairs)
