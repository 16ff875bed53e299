"""Points in boxes under their old name; deprecated in mx_driving."""

from __future__ import annotations

import warnings

from npu_emulator.mx_driving.ops.npu_points_in_box import npu_points_in_box
from npu_emulator.mx_driving.ops.npu_points_in_box_all import npu_points_in_box_all, points_in_boxes_all

__all__ = [
    "npu_points_in_box",
    "npu_points_in_box_all",
    "points_in_boxes_all",
]

warnings.warn("mx_driving.preprocess is deprecated, use mx_driving", DeprecationWarning, stacklevel=2)
