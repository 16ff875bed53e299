"""Fused operators under their old name; deprecated in mx_driving."""

from __future__ import annotations

import warnings

from npu_emulator.mx_driving.ops.deform_conv2d import DeformConv2dFunction, deform_conv2d
from npu_emulator.mx_driving.ops.modulated_deform_conv2d import ModulatedDeformConv2dFunction, modulated_deform_conv2d
from npu_emulator.mx_driving.ops.multi_scale_deformable_attn import (
    MultiScaleDeformableAttnFunction,
    multi_scale_deformable_attn,
    npu_multi_scale_deformable_attn_function,
)
from npu_emulator.mx_driving.ops.npu_add_relu import npu_add_relu
from npu_emulator.mx_driving.ops.npu_deformable_aggregation import npu_deformable_aggregation
from npu_emulator.mx_driving.ops.npu_max_pool2d import npu_max_pool2d

__all__ = [
    "DeformConv2dFunction",
    "ModulatedDeformConv2dFunction",
    "MultiScaleDeformableAttnFunction",
    "deform_conv2d",
    "modulated_deform_conv2d",
    "multi_scale_deformable_attn",
    "npu_add_relu",
    "npu_deformable_aggregation",
    "npu_max_pool2d",
    "npu_multi_scale_deformable_attn_function",
]

warnings.warn("mx_driving.fused is deprecated, use mx_driving", DeprecationWarning, stacklevel=2)
