"""Non-maximum suppression of boxes that are not rotated (mx-driving 26.2, ``mx_driving/ops/nms3d_normal.py``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from npu_emulator.formulas.suppression import keep_best
from npu_emulator.mx_driving._boxes import check_scored_boxes
from npu_emulator.mx_driving._counting import calls


class AdsNms3dNormalFunction(Function):
    """Keeps the best of the boxes that overlap in a bird's-eye view, as if no box were rotated. It has no gradient."""

    @staticmethod
    def forward(ctx: Any, boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
        """Suppress; arguments and result are those of nms3d, but for the angle, which is not looked at."""
        check_scored_boxes("nms3d_normal", boxes, scores)
        calls["nms3d_normal"] += 1
        center, size = boxes[:, :2], boxes[:, 3:5]
        low, high = center - size / 2, center + size / 2
        shared = torch.minimum(high.unsqueeze(1), high) - torch.maximum(low.unsqueeze(1), low)
        shared_area = shared.clamp(min=0).prod(dim=-1)
        area = size.prod(dim=-1)
        iou = shared_area / (area.unsqueeze(1) + area - shared_area).clamp(min=1e-8)
        return keep_best(iou, scores, iou_threshold)


# Bound as in mx_driving: positional arguments only.
nms3d_normal = AdsNms3dNormalFunction.apply
