"""Non-maximum suppression, by whatever measure of overlap."""

from __future__ import annotations

import torch
from torch import Tensor


def keep_best(iou: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Keep, from the best on, each that does not overlap one that is kept already.

    Args:
        iou: overlap of each with each, shape (n, n).
        scores: shape (n,).
        threshold: above which two overlap.

    Returns:
        Indices of those that are kept, best first, int64.
    """
    order = scores.sort(descending=True).indices
    overlaps = (iou > threshold)[order][:, order].cpu()
    suppressed = torch.zeros(len(order), dtype=torch.bool)
    kept = []
    for number in range(len(order)):
        if not suppressed[number]:
            kept.append(number)
            suppressed |= overlaps[number]
    return order[torch.tensor(kept, dtype=torch.int64, device=order.device)]


def check_boxes(kernel: str, boxes: Tensor, scores: Tensor) -> None:
    """Check that there are boxes of seven numbers, with a score each.

    Raises:
        ValueError: the tensors have other shapes.
    """
    if boxes.dim() != 2 or boxes.shape[1] != 7 or scores.shape != boxes.shape[:1]:
        raise ValueError(
            f"mx_driving.{kernel}: expected boxes of shape (n, 7) and scores of shape (n,), found "
            f"{tuple(boxes.shape)} and {tuple(scores.shape)}"
        )
