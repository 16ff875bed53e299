"""Decides, call by call, which code of an operator of ``mmcv._ext`` computes its tensors."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from torch import Tensor

from npu_emulator.device.arguments import tensors_in
from npu_emulator.errors import NotEmulated
from npu_emulator.mmcv_operators import attention, boxes, elementwise, focal_loss, points, pooling
from npu_emulator.mmcv_operators.builds import KERNELS, Build, first_build_with, patch_for
from npu_emulator.mmcv_operators.host import call_on_host

__all__ = ["emulate"]

Operator = Callable[..., Any]

#: Operators without a CPU kernel in mmcv.
_WRITTEN_HERE: dict[str, Operator] = {
    "ball_query_forward": points.ball_query_forward,
    "chamfer_distance_backward": points.chamfer_distance_backward,
    "chamfer_distance_forward": points.chamfer_distance_forward,
    "deform_roi_pool_backward": pooling.deform_roi_pool_backward,
    "deform_roi_pool_forward": pooling.deform_roi_pool_forward,
    "fused_bias_leakyrelu": elementwise.fused_bias_leakyrelu,
    "gather_points_backward": points.gather_points_backward,
    "gather_points_forward": points.gather_points_forward,
    "group_points_forward": points.group_points_forward,
    "ms_deform_attn_backward": attention.ms_deform_attn_backward,
    "ms_deform_attn_forward": attention.ms_deform_attn_forward,
    "points_in_polygons_forward": boxes.points_in_polygons_forward,
    "roi_pool_backward": pooling.roi_pool_backward,
    "roi_pool_forward": pooling.roi_pool_forward,
    "sigmoid_focal_loss_backward": focal_loss.sigmoid_focal_loss_backward,
    "sigmoid_focal_loss_forward": focal_loss.sigmoid_focal_loss_forward,
    "softmax_focal_loss_backward": focal_loss.softmax_focal_loss_backward,
    "softmax_focal_loss_forward": focal_loss.softmax_focal_loss_forward,
    "stack_ball_query_forward": points.stack_ball_query_forward,
    "stack_group_points_forward": points.stack_group_points_forward,
    "three_interpolate_backward": points.three_interpolate_backward,
    "three_interpolate_forward": points.three_interpolate_forward,
}
#: Operators whose kernel for NPUs differs from mmcv's CPU kernel in the arguments that it takes; called with that
#: kernel first.
_ADAPTED: dict[str, Operator] = {
    "box_iou_rotated": boxes.box_iou_rotated,
    "nms_rotated": boxes.nms_rotated,
}
#: Operators that read some of their tensors on the host, whatever the device of the others.
_MIXED = frozenset(["hard_voxelize_forward"])


def emulate(name: str, operator: Operator, build: Build) -> Operator:
    """Return an operator that knows NPU tensors: it computes with them if the real build does, else it refuses.

    Args:
        name: in ``mmcv._ext``.
        operator: mmcv's, which gets calls without NPU tensors as they are.
        build: the operators that a real build of this mmcv has.
    """
    if name in _WRITTEN_HERE:
        kernel = _WRITTEN_HERE[name]
    elif name in _ADAPTED:
        kernel = functools.partial(_ADAPTED[name], operator)
    else:
        kernel = operator

    def emulated(*args: Any, **kwargs: Any) -> Any:
        tensors = list(tensors_in((*args, *kwargs.values())))
        if not any(tensor.device.type == "npu" for tensor in tensors):
            return operator(*args, **kwargs)
        if name not in build.operators:
            raise NotEmulated(refusal(name, build, _caller()))
        if name not in _MIXED:
            _require_one_device(name, tensors)
        if name == "nms":
            boxes.require_float(tensors[0])
        return call_on_host(kernel, args, kwargs)

    functools.update_wrapper(emulated, operator)
    emulated.__module__, emulated.__qualname__ = "mmcv._ext", name  # pybind11 names a class of its own
    return emulated


def refusal(name: str, build: Build, caller: str = "mmcv") -> str:
    """Return the message for an operator that a real build does not have.

    Args:
        name: in ``mmcv._ext``.
        build: without the operator.
        caller: the top-level package that calls the operator.
    """
    message = f"mmcv._ext.{name}: mmcv {build.version} has no kernel for NPUs, so the emulated NPU has none either"
    since = first_build_with(name, int(build.version.partition(".")[0]))
    if since is not None:
        message += f"; mmcv has one since {since}"
    patch = patch_for(name, caller)
    if patch is not None:
        package = patch.partition(".")[0]
        return (
            f"{message}. It is replaced by the patch {patch} of {package}-npu-patches: patchcore run --enable {patch}."
        )
    kernel = next((kernel for beginning, kernel in KERNELS.items() if name.startswith(beginning)), None)
    if kernel is not None:
        return f"{message}. No patch replaces it: call it with CPU tensors, or call {kernel} in its caller."
    return f"{message}. No patch replaces it: call it with CPU tensors, or replace its caller."


def _caller() -> str:
    """Return the top-level package of the nearest frame outside of this package and of torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        root = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if root not in ("npu_emulator", "torch"):
            return root
        frame = frame.f_back
    return ""


def _require_one_device(name: str, tensors: list[Tensor]) -> None:
    """Refuse tensors of several devices, as mmcv does (``CheckDeviceConsistency``, pytorch_device_registry.hpp)."""
    first = tensors[0].device
    for number, tensor in enumerate(tensors):
        if tensor.device != first:
            raise RuntimeError(f"{name}: at param {number}, inconsistent device: {tensor.device} vs {first}")
