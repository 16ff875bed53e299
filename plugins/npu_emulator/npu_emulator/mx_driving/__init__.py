"""Stand-in for the package ``mx_driving`` (distribution mx-driving 26.2): the kernels that patches use, on any device.

Names, argument order and the results of backward are those of the real package; see each module of
:mod:`npu_emulator.mx_driving.ops` and :mod:`npu_emulator.mx_driving.modules`. Names are resolved at first use, so that
importing this package, as ``importlib.util.find_spec`` does to look for a submodule, does not import torch.

Attributes:
    calls: a :class:`collections.Counter` of kernel runs, by kernel name; the backward pass of a kernel counts under
        ``<name>_backward``. ``calls.clear()`` resets it.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from npu_emulator.mx_driving._counting import calls

_MODULE_OF = {
    "DeformConv2dFunction": "ops.deform_conv2d",
    "ModulatedDeformConv2dFunction": "ops.modulated_deform_conv2d",
    "MultiScaleDeformableAttnFunction": "ops.multi_scale_deformable_attn",
    "SparseConv3d": "modules.sparse_conv",
    "SparseConvTensor": "modules.sparse_structure",
    "SparseConvolution": "modules.sparse_conv",
    "SparseInverseConv3d": "modules.sparse_conv",
    "SparseModule": "modules.sparse_modules",
    "SparseSequential": "modules.sparse_modules",
    "SubMConv3d": "modules.sparse_conv",
    "Voxelization": "modules.voxelization",
    "bev_pool": "ops.bev_pool",
    "bev_pool_v2": "ops.bev_pool_v2",
    "bev_pool_v3": "ops.bev_pool_v3",
    "boxes_iou_bev": "ops.boxes_overlap_bev",
    "boxes_overlap_bev": "ops.boxes_overlap_bev",
    "deform_conv2d": "ops.deform_conv2d",
    "deformable_aggregation": "ops.npu_deformable_aggregation",
    "dynamic_scatter": "ops.npu_dynamic_scatter",
    "furthest_point_sampling": "ops.furthest_point_sampling",
    "fused_adamw_custom": "ops.fused_adamw_custom",
    "geometric_kernel_attention": "ops.geometric_kernel_attention",
    "group_points": "ops.group_points",
    "knn": "ops.knn",
    "modulated_deform_conv2d": "ops.modulated_deform_conv2d",
    "multi_scale_deformable_attn": "ops.multi_scale_deformable_attn",
    "nms3d": "ops.nms3d",
    "nms3d_normal": "ops.nms3d_normal",
    "npu_add_relu": "ops.npu_add_relu",
    "npu_batch_matmul": "ops.npu_batch_matmul",
    "npu_boxes_overlap_bev": "ops.boxes_overlap_bev",
    "npu_deformable_aggregation": "ops.npu_deformable_aggregation",
    "npu_dynamic_scatter": "ops.npu_dynamic_scatter",
    "npu_max_pool2d": "ops.npu_max_pool2d",
    "npu_multi_scale_deformable_attn_function": "ops.multi_scale_deformable_attn",
    "npu_points_in_box": "ops.npu_points_in_box",
    "npu_points_in_box_all": "ops.npu_points_in_box_all",
    "points_in_box": "ops.npu_points_in_box",
    "points_in_boxes_all": "ops.npu_points_in_box_all",
    "roi_align_rotated": "ops.roi_align_rotated",
    "scatter_add": "ops.scatter_add",
    "scatter_max": "ops.scatter_max",
    "scatter_mean": "ops.scatter_mean",
    "sigmoid_focal_loss": "ops.sigmoid_focal_loss",
    "three_nn": "ops.three_nn",
    "voxelization": "ops.voxelization",
}

#: Names of the real package that another provider of its patcher has: ``patchcore run --compat mx_driving``.
OF_THE_PATCHER = ("default_patcher_builder", "patch_mmcv_version")

__all__ = ["calls", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name in OF_THE_PATCHER:
        with contextlib.suppress(ModuleNotFoundError):
            return getattr(importlib.import_module("mx_driving.patcher"), name)
    if name not in _MODULE_OF:
        raise AttributeError(
            f"mx_driving.{name} has no stand-in in npu_emulator; there are: {', '.join(sorted(_MODULE_OF))}"
        )
    kernel = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = kernel
    return kernel


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
