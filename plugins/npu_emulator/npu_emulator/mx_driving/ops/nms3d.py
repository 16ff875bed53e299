"""Non-maximum suppression of rotated boxes (mx-driving 26.2, ``mx_driving/ops/nms3d.py``)."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from npu_emulator.formulas.suppression import keep_best
from npu_emulator.mx_driving._boxes import check_scored_boxes
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving.ops.boxes_overlap_bev import iou


class Nms3dFunction(Function):
    """Keeps the best of the boxes that overlap in a bird's-eye view. It has no gradient."""

    @staticmethod
    def forward(ctx: Any, boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
        """Suppress.

        Args:
            ctx: the autograd context.
            boxes: (x, y, z, dx, dy, dz, angle), counterclockwise in radians, shape (n, 7).
            scores: shape (n,).
            iou_threshold: boxes that share more than this part of their common area with a better one are left out.

        Returns:
            Indices of the boxes that are kept, best first, int64.

        Raises:
            ValueError: the tensors have another shape than described.
        """
        check_scored_boxes("nms3d", boxes, scores)
        calls["nms3d"] += 1
        return keep_best(iou(boxes, boxes), scores, iou_threshold)


# Bound as in mx_driving: positional arguments only.
nms3d = Nms3dFunction.apply
