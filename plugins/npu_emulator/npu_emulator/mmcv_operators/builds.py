"""The operators for which a build of mmcv for NPUs has kernels, by release of mmcv.

Source: the tags of https://github.com/open-mmlab/mmcv, from v1.7.0 to v2.2.0. An operator is in a build if its
implementation is registered in ``mmcv/ops/csrc/pytorch/npu`` (``REGISTER_NPU_IMPL``), or if its function calls a kernel
of that folder (``nms_rotated``). No release before 1.7.0 has the folder.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

__all__ = ["BUILDS", "KERNELS", "PATCHES", "PATCHES_OF_MMDET3D", "Build", "build_of", "first_build_with", "patch_for"]


class Build(NamedTuple):
    """The kernels of a build of mmcv for NPUs.

    Args:
        version: the release.
        operators: names of functions of ``mmcv._ext`` that have a kernel for NPUs.
    """

    version: str
    operators: frozenset[str]


def _both(*names: str) -> set[str]:
    return {f"{name}_{direction}" for name in names for direction in ("forward", "backward")}


_FOCAL_LOSS = _both("sigmoid_focal_loss", "softmax_focal_loss")
_1_7_1 = _FOCAL_LOSS | _both("deform_roi_pool") | {"fused_bias_leakyrelu", "nms"}
_2_0_0 = (
    _1_7_1
    | _both("psamask", "roi_pool")
    | {"bbox_overlaps", "gather_points_forward", "hard_voxelize_forward", "nms_rotated"}
)
_2_0_1 = _2_0_0 | _both("active_rotated_filter", "roi_align")
_1_7_2 = _2_0_1 | {"box_iou_rotated", "points_in_polygons_forward"}
_2_1_0 = _1_7_2 | {"gather_points_backward", "group_points_forward"}
_2_2_0 = (
    _2_1_0
    | _both("chamfer_distance", "ms_deform_attn", "roi_align_rotated", "rotated_feature_align", "three_interpolate")
    | {"ball_query_forward", "stack_ball_query_forward", "stack_group_points_forward"}
)

#: Oldest first within each major version.
BUILDS = tuple(
    Build(version, frozenset(operators))
    for version, operators in (
        ("1.7.0", _FOCAL_LOSS),
        ("1.7.1", _1_7_1),
        ("1.7.2", _1_7_2),
        ("2.0.0", _2_0_0),
        ("2.0.1", _2_0_1),
        ("2.1.0", _2_1_0),
        ("2.2.0", _2_2_0),
    )
)

#: Patches of mmcv-npu-patches that replace the callers of operators, by the beginning of the operators' names.
PATCHES = {
    "deform_conv_": "mmcv.deform_conv",
    "dynamic_voxelize_": "mmcv.voxelization",
    "get_indice_pairs_": "mmcv.spconv3d",
    "hard_voxelize_": "mmcv.voxelization",
    "indice_conv_": "mmcv.spconv3d",
    "modulated_deform_conv_": "mmcv.modulated_deform_conv",
    "ms_deform_attn_": "mmcv.multi_scale_deformable_attention",
    "sigmoid_focal_loss_": "mmcv.sigmoid_focal_loss",
}

#: Patches of mmdet3d-npu-patches that replace mmdet3d's own callers of the operators, by the patch for those of mmcv.
PATCHES_OF_MMDET3D = {"mmcv.voxelization": "mmdet3d.voxelization"}

#: Kernels of mx_driving that compute the same as an operator, and that no patch calls yet, by the operators' names.
KERNELS = {"dynamic_point_to_voxel_": "mx_driving.npu_dynamic_scatter"}


def build_of(version: str) -> Build:
    """Return the operators that a build of a release has, from the table: those of the latest release up to this one.

    Args:
        version: of mmcv, ``2.1.0``. An older one than the table has is a build without kernels.
    """
    wanted = _numbers(version)
    found = Build(version, frozenset())
    for build in BUILDS:
        numbers = _numbers(build.version)
        if numbers[0] == wanted[0] and numbers <= wanted:
            found = build
    return found._replace(version=version)


def first_build_with(operator: str, major: int) -> Optional[str]:
    """Return the first release of a major version of mmcv whose build has an operator, ``None`` if none has."""
    for build in BUILDS:
        if _numbers(build.version)[0] == major and operator in build.operators:
            return build.version
    return None


def patch_for(operator: str, caller: str = "mmcv") -> Optional[str]:
    """Return the name of the patch that replaces the caller of an operator, ``None`` if there is none.

    Args:
        operator: in ``mmcv._ext``.
        caller: the top-level package that calls it.
    """
    found = next((patch for beginning, patch in PATCHES.items() if operator.startswith(beginning)), None)
    return PATCHES_OF_MMDET3D.get(found or "", found) if caller == "mmdet3d" else found


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)
