"""Non-maximum suppression."""

from __future__ import annotations

from typing import Union

import torch
from torch import Tensor

from npu_emulator.errors import NotEmulated
from npu_emulator.formulas.suppression import keep_best
from npu_emulator.torch_npu.ops.boxes import pairwise_areas
from npu_emulator.torch_npu.ops.precision import accumulated
from npu_emulator.torch_npu.ops.registry import operator

__all__ = ["npu_batch_nms", "npu_nms_v4", "npu_nms_with_mask"]


@operator(
    "npu_nms_v4(Tensor input, Tensor scores, Scalar max_output_size, Tensor iou_threshold, Tensor scores_threshold,"
    " bool pad_to_max_output_size=False) -> (Tensor, Tensor)",
    differentiable=False,
)
def npu_nms_v4(
    input: Tensor,
    scores: Tensor,
    max_output_size: Union[int, float],
    iou_threshold: Tensor,
    scores_threshold: Tensor,
    pad_to_max_output_size: bool = False,
) -> tuple[Tensor, Tensor]:
    """Select boxes by score, without those that overlap one selected before by more than a threshold.

    Args:
        input: shape (n, 4), (x1, y1, x2, y2).
        scores: shape (n,).
        max_output_size: how many boxes to select at most.
        iou_threshold: the threshold, no dimensions.
        scores_threshold: a box must have a higher score, no dimensions.
        pad_to_max_output_size: without effect: op-plugin allocates the selection with that size in any case.

    Returns:
        The selection, indices as int32 of shape (max_output_size,), with zeros after the last; and how many it has,
        int32 without dimensions.
    """
    size = int(max_output_size)
    order = torch.argsort(scores, descending=True, stable=True)
    order = order[scores[order] > scores_threshold]
    kept = order[_kept(input[order], float(iou_threshold))][:size]
    selected = torch.zeros(size, dtype=torch.int32, device=input.device)
    selected[: kept.numel()] = kept.int()
    return selected, torch.tensor(kept.numel(), dtype=torch.int32, device=input.device)


@operator("npu_nms_with_mask(Tensor input, Scalar iou_threshold) -> (Tensor, Tensor, Tensor)", differentiable=False)
def npu_nms_with_mask(input: Tensor, iou_threshold: Union[int, float]) -> tuple[Tensor, Tensor, Tensor]:
    """Mark the boxes that do not overlap a better one by more than a threshold.

    Args:
        input: shape (n, 5) or wider, (x1, y1, x2, y2, score), sorted by falling score as the device needs them.
        iou_threshold: the threshold.

    Returns:
        The boxes with their scores, shape (n, 5); their indices, int32, shape (n,); and 1 for those that stay and 0 for
        the others, uint8, shape (n,).

    Raises:
        ValueError: there are fewer than 5 columns.
    """
    if input.dim() != 2 or input.shape[1] < 5:
        raise ValueError(f"npu_nms_with_mask: expected input of shape (n, 5), found {tuple(input.shape)}")
    mask = _kept(input[:, :4], float(iou_threshold)).to(torch.uint8)
    return input[:, :5].clone(), torch.arange(input.shape[0], dtype=torch.int32, device=input.device), mask


@operator(
    "npu_batch_nms(Tensor input, Tensor scores, float score_threshold, float iou_threshold, int max_size_per_class,"
    " int max_total_size, bool change_coordinate_frame=False, bool transpose_box=False)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    differentiable=False,
)
def npu_batch_nms(
    input: Tensor,
    scores: Tensor,
    score_threshold: float,
    iou_threshold: float,
    max_size_per_class: int,
    max_total_size: int,
    change_coordinate_frame: bool = False,
    transpose_box: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Select boxes by score, per image and class, and the best of all classes.

    Args:
        input: boxes, shape (b, n, q, 4), (x1, y1, x2, y2), q being 1 or the number of classes.
        scores: shape (b, n, classes).
        score_threshold: a box must have a higher score.
        iou_threshold: a box must not overlap a better one of its class by more.
        max_size_per_class: how many boxes of a class to select at most.
        max_total_size: how many boxes of an image to select at most.
        change_coordinate_frame: ``False``.
        transpose_box: ``False``.

    Returns:
        Boxes, shape (b, max_total_size, 4); scores and classes, shape (b, max_total_size), all of the dtype of
        ``input`` and zero after the last; and how many there are, int32, shape (b,).

    Raises:
        NotEmulated: one of the two flags.
    """
    if change_coordinate_frame or transpose_box:
        raise NotEmulated(
            "npu_batch_nms: change_coordinate_frame and transpose_box are not emulated; normalize or transpose before"
        )
    batch, _, classes = scores.shape
    boxes = input.new_zeros(batch, max_total_size, 4)
    best = input.new_zeros(batch, max_total_size)
    labels = input.new_zeros(batch, max_total_size)
    counts = torch.zeros(batch, dtype=torch.int32, device=input.device)
    for image in range(batch):
        found = []
        for label in range(classes):
            candidates = input[image, :, label if input.shape[2] > 1 else 0]
            confidence = scores[image, :, label]
            order = torch.argsort(confidence, descending=True, stable=True)
            order = order[confidence[order] > score_threshold]
            kept = order[_kept(candidates[order], iou_threshold)][:max_size_per_class]
            row = confidence[kept].unsqueeze(-1)
            found.append(torch.cat((candidates[kept], row, torch.full_like(row, label)), dim=-1))
        every = torch.cat(found)
        every = every[torch.argsort(every[:, 4], descending=True, stable=True)][:max_total_size]
        count = every.shape[0]
        boxes[image, :count], best[image, :count], labels[image, :count] = every[:, :4], every[:, 4], every[:, 5]
        counts[image] = count
    return boxes, best, labels, counts


def _kept(boxes: Tensor, iou_threshold: float) -> Tensor:
    """Return which boxes of a falling order stay, as bool of shape (n,)."""
    area, other_area, intersection = pairwise_areas(accumulated(boxes), accumulated(boxes))
    union = area + other_area - intersection
    iou = torch.where(union > 0, intersection / union, 0)
    order = torch.arange(len(boxes), 0, -1, device=boxes.device)  # the best first
    kept = torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
    kept[keep_best(iou, order, iou_threshold)] = True
    return kept
