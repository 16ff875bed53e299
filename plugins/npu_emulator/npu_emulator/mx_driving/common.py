"""Scattering and neighbours under their old name; deprecated in mx_driving."""

from __future__ import annotations

import warnings

from npu_emulator.mx_driving.ops.knn import knn
from npu_emulator.mx_driving.ops.scatter_max import scatter_max
from npu_emulator.mx_driving.ops.scatter_mean import scatter_mean
from npu_emulator.mx_driving.ops.three_nn import three_nn

__all__ = [
    "knn",
    "scatter_max",
    "scatter_mean",
    "three_nn",
]

warnings.warn("mx_driving.common is deprecated, use mx_driving", DeprecationWarning, stacklevel=2)
