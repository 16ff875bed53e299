"""Overlaps of boxes, and the coding of boxes relative to anchors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops.precision import accumulated
from npu_emulator.torch_npu.ops.registry import operator

__all__ = [
    "npu_anchor_response_flags",
    "npu_bounding_box_decode",
    "npu_bounding_box_encode",
    "npu_ciou",
    "npu_diou",
    "npu_giou",
    "npu_iou",
    "npu_ptiou",
    "pairwise_areas",
]

#: Keeps the overlap of boxes without area defined: torch_npu.contrib.function.iou documents it for npu_iou ...
_IOU_EPSILON = 1e-3
#: ... and op-plugin's tests of npu_giou, npu_diou and npu_ciou have one too small to matter otherwise.
_PAIRED_EPSILON = 1e-16


def pairwise_areas(boxes: Tensor, others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the areas of boxes, of other boxes, and of their intersections.

    Args:
        boxes: shape (n, 4), (x1, y1, x2, y2).
        others: shape (m, 4), likewise.

    Returns:
        Shapes (n, 1), (1, m) and (n, m).
    """
    extent = (boxes[:, 2:] - boxes[:, :2]).prod(dim=-1).unsqueeze(1)
    other_extent = (others[:, 2:] - others[:, :2]).prod(dim=-1).unsqueeze(0)
    low = torch.maximum(boxes[:, None, :2], others[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return extent, other_extent, (high - low).clamp(min=0).prod(dim=-1)


@operator("npu_iou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor", differentiable=False)
def npu_iou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """Return ``(intersection + 0.001) / (union + 0.001)`` of every pair of boxes.

    Args:
        bboxes: shape (n, 4), (x1, y1, x2, y2).
        gtboxes: shape (m, 4), likewise.
        mode: 0; 1 divides by the area of the box of ``gtboxes`` instead of the union.

    Returns:
        Shape (m, n).
    """
    intersection, denominator = _intersection_and_denominator("npu_iou", bboxes, gtboxes, mode)
    return ((intersection + _IOU_EPSILON) / (denominator + _IOU_EPSILON)).to(bboxes.dtype)


@operator("npu_ptiou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor", differentiable=False)
def npu_ptiou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """Return ``intersection / (union + 0.001)`` of every pair of boxes.

    Args:
        bboxes: shape (n, 4), (x1, y1, x2, y2).
        gtboxes: shape (m, 4), likewise.
        mode: 0; 1 divides by the area of the box of ``gtboxes`` instead of the union.

    Returns:
        Shape (m, n).
    """
    intersection, denominator = _intersection_and_denominator("npu_ptiou", bboxes, gtboxes, mode)
    return (intersection / (denominator + _IOU_EPSILON)).to(bboxes.dtype)


@operator("npu_giou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor")
def npu_giou(input: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Return the generalized IoU of boxes and their partners (Rezatofighi et al., arXiv:1902.09630).

    Args:
        input: shape (4, n).
        gtboxes: shape (4, n), the partners.
        trans: whether the rows are (centre x, centre y, width, height); otherwise (x1, y1, x2, y2).
        is_cross: ``False``.
        mode: 0.

    Returns:
        Shape (n, 1).

    Raises:
        NotEmulated: ``is_cross`` or ``mode``: documentation and tests of the operator disagree about their results.
    """
    pair = _paired("npu_giou", input, gtboxes, trans, is_cross, mode)
    width, height = _enclosing(pair)
    enclosing = width * height
    return (pair.iou - (enclosing - pair.union) / enclosing).unsqueeze(-1).to(input.dtype)


@operator("npu_diou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor")
def npu_diou(input: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Tensor:
    """Return the distance IoU of boxes and their partners (Zheng et al., arXiv:1911.08287).

    Args:
        input: shape (4, n).
        gtboxes: shape (4, n), the partners.
        trans: whether the rows are (centre x, centre y, width, height); otherwise (x1, y1, x2, y2).
        is_cross: ``False``.
        mode: 0.

    Returns:
        Shape (1, n).

    Raises:
        NotEmulated: ``is_cross`` or ``mode``, as for :func:`npu_giou`.
    """
    pair = _paired("npu_diou", input, gtboxes, trans, is_cross, mode)
    return (pair.iou - _center_distance(pair)).unsqueeze(0).to(input.dtype)


@operator(
    "npu_ciou(Tensor input, Tensor gtboxes, bool trans=False, bool is_cross=True, int mode=0,"
    " bool atan_sub_flag=False) -> Tensor"
)
def npu_ciou(
    input: Tensor,
    gtboxes: Tensor,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
    atan_sub_flag: bool = False,
) -> Tensor:
    """Return the complete IoU of boxes and their partners (Zheng et al., arXiv:1911.08287).

    The weight of the aspect ratios counts as a constant in the backward pass, as in the paper.

    Args:
        input: shape (4, n).
        gtboxes: shape (4, n), the partners.
        trans: whether the rows are (centre x, centre y, width, height); otherwise (x1, y1, x2, y2).
        is_cross: ``False``, which is not the default.
        mode: 0.
        atan_sub_flag: without effect; on the device it keeps an intermediate result for the backward pass.

    Returns:
        Shape (1, n).

    Raises:
        NotEmulated: ``is_cross`` or ``mode``, as for :func:`npu_giou`.
    """
    pair = _paired("npu_ciou", input, gtboxes, trans, is_cross, mode)
    angles = [torch.atan((box[2] - box[0]) / (box[3] - box[1])) for box in (pair.boxes, pair.partners)]
    aspect = (4 / math.pi**2) * (angles[1] - angles[0]).square()
    with torch.no_grad():
        weight = aspect / (1 - pair.iou + aspect + _PAIRED_EPSILON)
    return (pair.iou - _center_distance(pair) - weight * aspect).unsqueeze(0).to(input.dtype)


@operator(
    "npu_bounding_box_encode(Tensor anchor_box, Tensor ground_truth_box, float means0, float means1, float means2,"
    " float means3, float stds0, float stds1, float stds2, float stds3) -> Tensor",
    differentiable=False,
)
def npu_bounding_box_encode(
    anchor_box: Tensor,
    ground_truth_box: Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
) -> Tensor:
    """Return boxes relative to anchors (Ren et al., Faster R-CNN, arXiv:1506.01497), normalized.

    Corners belong to their boxes, whose widths and heights are therefore ``x2 - x1 + 1`` and ``y2 - y1 + 1``; that,
    and that only the magnitude of a ratio of sizes counts, is what the documented example fixes.

    Args:
        anchor_box: shape (n, 4), (x1, y1, x2, y2).
        ground_truth_box: likewise.
        means0: subtracted from dx.
        means1: subtracted from dy.
        means2: subtracted from dw.
        means3: subtracted from dh.
        stds0: divides dx.
        stds1: divides dy.
        stds2: divides dw.
        stds3: divides dh.

    Returns:
        Shape (n, 4), (dx, dy, dw, dh).
    """
    anchor_center, anchor_size = _inclusive(accumulated(anchor_box))
    center, size = _inclusive(accumulated(ground_truth_box))
    deltas = torch.cat(((center - anchor_center) / anchor_size, (size / anchor_size).abs().log()), dim=-1)
    means, deviations = (
        deltas.new_tensor([means0, means1, means2, means3]),
        deltas.new_tensor([stds0, stds1, stds2, stds3]),
    )
    return ((deltas - means) / deviations).to(anchor_box.dtype)


@operator(
    "npu_bounding_box_decode(Tensor rois, Tensor deltas, float means0, float means1, float means2, float means3,"
    " float stds0, float stds1, float stds2, float stds3, int[1] max_shape, float wh_ratio_clip) -> Tensor",
    differentiable=False,
)
def npu_bounding_box_decode(
    rois: Tensor,
    deltas: Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
    max_shape: Sequence[int],
    wh_ratio_clip: float,
) -> Tensor:
    """Return boxes from the deltas that :func:`npu_bounding_box_encode` returns, inside the image.

    Args:
        rois: the anchors, shape (n, 4), (x1, y1, x2, y2).
        deltas: shape (n, 4), (dx, dy, dw, dh).
        means0: added to dx.
        means1: added to dy.
        means2: added to dw.
        means3: added to dh.
        stds0: multiplies dx.
        stds1: multiplies dy.
        stds2: multiplies dw.
        stds3: multiplies dh.
        max_shape: (height, width) of the image in pixels, or one number for both.
        wh_ratio_clip: how far a size may differ from the anchor's, as a ratio.

    Returns:
        Shape (n, 4), (x1, y1, x2, y2).
    """
    anchor_center, anchor_size = _inclusive(accumulated(rois))
    raw = accumulated(deltas)
    normalized = raw * raw.new_tensor([stds0, stds1, stds2, stds3]) + raw.new_tensor([means0, means1, means2, means3])
    limit = abs(math.log(wh_ratio_clip))
    center = anchor_center + anchor_size * normalized[:, :2]
    half = anchor_size * normalized[:, 2:].clamp(-limit, limit).exp() * 0.5 - 0.5
    height, width = max_shape[0], max_shape[-1]
    last = raw.new_tensor([width - 1, height - 1, width - 1, height - 1])
    boxes = torch.cat((center - half, center + half), dim=-1)
    return torch.minimum(boxes.clamp(min=0), last).to(rois.dtype)


@operator(
    "npu_anchor_response_flags(Tensor input, int[2] featmap_size, int[2] stride, int num_base_anchors) -> Tensor",
    differentiable=False,
)
def npu_anchor_response_flags(
    input: Tensor, featmap_size: Sequence[int], stride: Sequence[int], num_base_anchors: int
) -> Tensor:
    """Return which anchors lie in a cell of the feature map that the centre of some box lies in.

    Args:
        input: boxes, shape (n, 4), (x1, y1, x2, y2), in pixels of the image.
        featmap_size: (height, width) of the feature map, in cells.
        stride: size of a cell in pixels, first the one that divides x.
        num_base_anchors: anchors of a cell.

    Returns:
        uint8, shape (height * width * num_base_anchors,).
    """
    height, width = featmap_size
    centers = (input[:, :2] + input[:, 2:]) * 0.5
    column = (centers[:, 0] / stride[0]).floor().long().clamp(0, width - 1)
    row = (centers[:, 1] / stride[1]).floor().long().clamp(0, height - 1)
    cells = torch.zeros(height * width, dtype=torch.uint8, device=input.device)
    cells = cells.index_fill(0, row * width + column, 1)
    return cells.repeat_interleave(num_base_anchors)


class _Pair(NamedTuple):
    """Boxes and their partners, rows (x1, y1, x2, y2), and how they overlap; all else has the shape (n,)."""

    boxes: Tensor
    partners: Tensor
    union: Tensor
    iou: Tensor


def _paired(name: str, boxes: Tensor, partners: Tensor, trans: bool, is_cross: bool, mode: int) -> _Pair:
    if is_cross or mode != 0:
        raise NotEmulated(f"{name}: is_cross={is_cross}, mode={mode} is not emulated; pass is_cross=False, mode=0")
    if boxes.shape != partners.shape or boxes.dim() != 2 or boxes.shape[0] != 4:
        raise ValueError(
            f"{name}: expected two tensors of shape (4, n), found {tuple(boxes.shape)} and {tuple(partners.shape)}"
        )
    first, second = (_corners(accumulated(tensor), trans) for tensor in (boxes, partners))
    sides = (torch.minimum(first[2:], second[2:]) - torch.maximum(first[:2], second[:2])).clamp(min=0)
    intersection = sides[0] * sides[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    union = areas[0] + areas[1] - intersection + _PAIRED_EPSILON
    return _Pair(first, second, union, intersection / union)


def _corners(boxes: Tensor, from_centers: bool) -> Tensor:
    if not from_centers:
        return boxes
    center, half = boxes[:2], boxes[2:] / 2
    return torch.cat((center - half, center + half))


def _enclosing(pair: _Pair) -> tuple[Tensor, Tensor]:
    """Width and height of the smallest box around both."""
    sides = torch.maximum(pair.boxes[2:], pair.partners[2:]) - torch.minimum(pair.boxes[:2], pair.partners[:2])
    return sides[0], sides[1]


def _center_distance(pair: _Pair) -> Tensor:
    """Squared distance of the centres, relative to the diagonal of the smallest box around both."""
    width, height = _enclosing(pair)
    apart = (pair.partners[:2] + pair.partners[2:] - pair.boxes[:2] - pair.boxes[2:]) / 2
    return apart.square().sum(dim=0) / (width.square() + height.square() + _PAIRED_EPSILON)


def _intersection_and_denominator(name: str, bboxes: Tensor, gtboxes: Tensor, mode: int) -> tuple[Tensor, Tensor]:
    if mode not in (0, 1):
        raise ValueError(f"{name}: expected mode 0 or 1, found {mode}")
    gt_area, area, intersection = pairwise_areas(accumulated(gtboxes), accumulated(bboxes))
    denominator = gt_area + area - intersection if mode == 0 else gt_area.expand_as(intersection)
    return intersection, denominator


def _inclusive(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and size of boxes whose corners belong to them."""
    return (boxes[:, :2] + boxes[:, 2:]) * 0.5, boxes[:, 2:] - boxes[:, :2] + 1
