"""Operators on boxes whose kernels for NPUs take other arguments than mmcv's CPU kernels (mmcv 2.1.0)."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import Tensor

__all__ = ["box_iou_rotated", "nms_rotated", "points_in_polygons_forward", "require_float"]

#: The most polygons that ``points_in_polygons_npu.cpp`` takes.
_MOST_POLYGONS = 2800


def require_float(boxes: Tensor) -> None:
    """Refuse boxes in 16 or 64 bits, as ``nms_npu.cpp`` does."""
    if boxes.dtype != torch.float32:
        raise RuntimeError("The type of boxes tensor passed in nms_npu should be float")


def box_iou_rotated(
    kernel: Callable[..., Any], boxes1: Tensor, boxes2: Tensor, ious: Tensor, mode_flag: int, aligned: bool
) -> None:
    """Write the overlaps of rotated boxes to ``ious``.

    Args:
        kernel: mmcv's for the CPU, which takes angles in radians.
        boxes1, boxes2: (boxes, 5), with angles in degrees, as the kernel for NPUs takes them and mmcv passes them.
        ious: (boxes1 * boxes2,), or (boxes1,) if aligned.
        mode_flag: 0 for the intersection over the union, 1 over the first box.
        aligned: whether boxes are compared pair by pair.
    """
    kernel(_in_radians(boxes1), _in_radians(boxes2), ious, mode_flag=mode_flag, aligned=aligned)


def nms_rotated(
    kernel: Callable[..., Tensor],
    dets: Tensor,
    scores: Tensor,
    order: Tensor,
    dets_sorted: Tensor,
    labels: Tensor,
    iou_threshold: float,
    multi_label: int,
) -> Tensor:
    """Return the indices of the rotated boxes that are kept, the one with the highest score first.

    Args:
        kernel: mmcv's for the CPU, which takes angles in radians.
        dets: (boxes, 5), with angles in degrees.
        scores: (boxes,).
        order, dets_sorted: not used, as on an NPU.
        labels: not used: mmcv's kernels for CPU and CUDA compare boxes of all labels, and so do its tests on NPUs.
        iou_threshold: a box is dropped if it overlaps a kept one by more.
        multi_label: not used, as on an NPU.
    """
    dets = _in_radians(dets)
    return kernel(dets, scores, order, dets, labels, iou_threshold, 0)


def points_in_polygons_forward(points: Tensor, polygons: Tensor, output: Tensor) -> None:
    """Write 1 to ``output`` where a point is inside a quadrangle, else 0.

    Source: ``mmcv/ops/csrc/common/cuda/points_in_polygons_cuda_kernel.cuh``.

    Args:
        points: (points, 2).
        polygons: (polygons, 8), the corners of quadrangles.
        output: (points, polygons).

    Raises:
        RuntimeError: there are more polygons than the kernel takes.
    """
    if len(polygons) > _MOST_POLYGONS:
        raise RuntimeError("The batch of polygons tensor must be less than MAX_POLYGONS_BATCH")
    px, py = points[:, :1], points[:, 1:]
    inside = torch.zeros(len(points), len(polygons), dtype=torch.bool)
    corners = polygons.view(-1, 4, 2)
    on_edge = torch.zeros_like(inside)  # there the kernel stops: edges after it do not count
    for number in range(4):
        (sx, sy), (tx, ty) = (corners[:, index].unbind(-1) for index in (number, number - 1))
        within = (py >= torch.minimum(sy, ty)) & (py <= torch.maximum(sy, ty)) & ~on_edge
        on_edge |= within & (((sx == px) & (sy == py)) | ((tx == px) & (ty == py)))
        crosses = within & ~on_edge & (((sy < py) & (ty >= py)) | ((sy >= py) & (ty < py)))
        x = sx + (py - sy) * (tx - sx) / (ty - sy)
        on_edge |= crosses & (x == px)
        inside ^= crosses & ~on_edge & (x > px)
    output.copy_(inside)


def _in_radians(boxes: Tensor) -> Tensor:
    boxes = boxes.clone()
    boxes[:, 4] *= math.pi / 180
    return boxes
