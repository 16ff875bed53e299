"""The sparse convolutions under their old name; deprecated in mx_driving."""

from __future__ import annotations

import warnings

from npu_emulator.mx_driving.modules.sparse_conv import (
    SparseConv3d,
    SparseConvolution,
    SparseInverseConv3d,
    SubMConv3d,
)
from npu_emulator.mx_driving.modules.sparse_modules import SparseModule, SparseSequential
from npu_emulator.mx_driving.modules.sparse_structure import SparseConvTensor

__all__ = [
    "SparseConv3d",
    "SparseConvTensor",
    "SparseConvolution",
    "SparseInverseConv3d",
    "SparseModule",
    "SparseSequential",
    "SubMConv3d",
]

warnings.warn("mx_driving.spconv is deprecated, use mx_driving", DeprecationWarning, stacklevel=2)
