"""Non-maximum suppression, by whatever measure of overlap."""

from __future__ import annotations

import torch
from torch import Tensor


def keep_best(iou: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Keep boxes, the best first, that do not overlap a box which is kept already.

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
