"""Non-maximum suppression of rotated boxes that leaves the boxes of its caller as they are.

``nms_rotated`` of mmcv 1.7.2 and 2.0 to 2.2 turns the angles of NPU boxes to degrees for its kernel, in the tensor that
it was given. The caller's boxes are in degrees afterwards, and so are those that it returns (``mmcv/ops/nms.py``).
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from mmcv_npu import kernels


def nms_rotated(
    original: Any, dets: Any, scores: Any, iou_threshold: Any, labels: Any = None, clockwise: bool = True
) -> Any:
    """Call mmcv's function with a copy of NPU boxes, and return those of the caller that it keeps.

    Args:
        original: mmcv's function.
        dets: (boxes, 5): x and y of the centre, width, height, angle in radians.
        scores: (boxes,).
        iou_threshold: a box is dropped if it overlaps a kept one by more.
        labels: (boxes,), or ``None``.
        clockwise: whether angles are.

    Returns:
        The boxes that are kept with their scores, (kept, 6), and their indices.
    """
    if dets.device.type != "npu" or not len(dets):
        return original(dets, scores, iou_threshold, labels, clockwise)
    import torch

    _, kept = original(dets.clone(), scores, iou_threshold, labels, clockwise)
    return torch.cat((dets[kept], scores[kept].reshape(-1, 1)), dim=1), kept


NMS_ROTATED = pc.Patch(
    "mmcv.nms_rotated",
    [pc.Wrap("mmcv.ops.nms:nms_rotated", nms_rotated)],
    summary="nms_rotated leaves the boxes of its caller in radians",
    requires="mmcv>=1.7.2,<3",  # the first that calls a kernel for NPUs
    when=kernels.operators_are_built,
    checks=pc.Check("mmcv_npu.checks.nms_rotated:called", dtypes={"float32": 1e-6}),
)
