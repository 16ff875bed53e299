"""Operators on boxes under their old name; deprecated in mx_driving."""

from __future__ import annotations

import warnings

from npu_emulator.mx_driving.ops.boxes_overlap_bev import boxes_overlap_bev, npu_boxes_overlap_bev
from npu_emulator.mx_driving.ops.nms3d import nms3d
from npu_emulator.mx_driving.ops.nms3d_normal import nms3d_normal
from npu_emulator.mx_driving.ops.roi_align_rotated import roi_align_rotated

__all__ = [
    "boxes_overlap_bev",
    "nms3d",
    "nms3d_normal",
    "npu_boxes_overlap_bev",
    "roi_align_rotated",
]

warnings.warn("mx_driving.detection is deprecated, use mx_driving", DeprecationWarning, stacklevel=2)
