"""Deformable convolution, version 1 and 2, on the kernels of mx_driving where they fit.

The kernels (distribution mx-driving 26.2) take float32, one deformable group and channels in multiples of 64, do not
cast dtypes as mmcv does, and drop a bias without a word. Half precision is cast to float32 and the result back: mmcv's
own NPU path has no backward pass from torch_npu 2.1 on, where ``torch.npu_deformable_conv2dbk`` is gone (mmcv-full
1.7.2 has no forward pass there either). What does not fit goes to mmcv's own operator. The classes stay, because that
operator uses their helpers; their ``apply`` chooses, call by call.

mmcv computes in the dtype of the offset, which is what autocast makes of the layer that predicts it (mmcv 1.7.2 and
2.1.0, ``mmcv/ops/deform_conv.py``). So is the result's dtype here.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from mmcv_npu import kernels


def deform_conv_fits(cls: type, x: Any, offset: Any, weight: Any, *geometry: Any) -> bool:
    """Tell whether the kernel takes this call.

    Args:
        cls: the class whose ``apply`` is called.
        x: (batch, channels, height, width).
        offset: (batch, 2 * deform_groups * kernel height * kernel width, out height, out width), in pixels.
        weight: (out channels, channels / groups, kernel height, kernel width).
        geometry: stride, padding, dilation, groups, deform_groups, bias, im2col_step, as far as given. mmcv refuses a
            true ``bias``, and keeps doing so.
    """
    return _input_fits(x, offset) and _deform_groups(geometry) == 1 and not any(geometry[5:6])


def deform_conv2d(cls: type, x: Any, offset: Any, weight: Any, *geometry: Any) -> Any:
    """Replace ``DeformConv2dFunction.apply``: run the kernel in float32, return the dtype of the offset.

    Arguments: see :func:`deform_conv_fits`.
    """
    from mx_driving import deform_conv2d as kernel

    with kernels.without_autocast(x):
        out = kernel(x.float(), offset.float(), weight.float(), *geometry)
    return out.type_as(offset)


def modulated_deform_conv_fits(
    cls: type, x: Any, offset: Any, mask: Any, weight: Any, bias: Any = None, *geometry: Any
) -> bool:
    """Tell whether the kernel takes this call.

    Args:
        cls: the class whose ``apply`` is called.
        x: (batch, channels, height, width).
        offset: (batch, 2 * deform_groups * kernel height * kernel width, out height, out width), in pixels.
        mask: (batch, deform_groups * kernel height * kernel width, out height, out width).
        weight: (out channels, channels / groups, kernel height, kernel width).
        bias: (out channels,), or ``None``.
        geometry: stride, padding, dilation, groups, deform_groups, as far as given.
    """
    return (
        _input_fits(x, offset)
        and weight.shape[0] % 64 == 0
        and tuple(weight.shape[2:]) == (3, 3)
        and _deform_groups(geometry) == 1
    )


def modulated_deform_conv2d(
    cls: type, x: Any, offset: Any, mask: Any, weight: Any, bias: Any = None, *geometry: Any
) -> Any:
    """Replace ``ModulatedDeformConv2dFunction.apply``: run the kernel in float32, add the bias, return offset's dtype.

    Arguments: see :func:`modulated_deform_conv_fits`.
    """
    from mx_driving import modulated_deform_conv2d as kernel

    with kernels.without_autocast(x):
        out = kernel(x.float(), offset.float(), mask.float(), weight.float(), None, *geometry)
    if bias is not None:
        out = out + bias.type_as(out).view(1, -1, 1, 1)
    return out.type_as(offset)


def _input_fits(x: Any, offset: Any) -> bool:
    return kernels.takes(x) and kernels.takes_dtype(offset) and x.dim() == 4 and x.numel() > 0 and x.shape[1] % 64 == 0


def _deform_groups(geometry: tuple[Any, ...]) -> Any:
    """The fifth of stride, padding, dilation, groups, deform_groups; 1 when it is left out."""
    return geometry[4] if len(geometry) > 4 else 1


def bound_again(apply: Any) -> Any:
    """Return what ``Function.apply`` is now for one that was bound earlier.

    mmcv binds ``deform_conv2d = DeformConv2dFunction.apply`` once, when its module is imported.
    """
    return apply.__self__.apply


DEFORM_CONV = pc.Patch(
    "mmcv.deform_conv",
    [
        pc.Replace(
            "mmcv.ops.deform_conv:DeformConv2dFunction.apply",
            deform_conv2d,
            when_call=deform_conv_fits,
        ),
        pc.Replace("mmcv.ops.deform_conv:deform_conv2d", factory=bound_again),
    ],
    summary="DeformConv2d on the mx_driving kernel",
    requires="mmcv>=1.3,<3",
    needs="mx_driving",
    legacy_names=["dc", "deform_conv"],
    checks=pc.Check("mmcv_npu.checks.deform_conv:called", dtypes={"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}),
)

MODULATED_DEFORM_CONV = pc.Patch(
    "mmcv.modulated_deform_conv",
    [
        pc.Replace(
            "mmcv.ops.modulated_deform_conv:ModulatedDeformConv2dFunction.apply",
            modulated_deform_conv2d,
            when_call=modulated_deform_conv_fits,
        ),
        pc.Replace("mmcv.ops.modulated_deform_conv:modulated_deform_conv2d", factory=bound_again),
    ],
    summary="ModulatedDeformConv2d on the mx_driving kernel",
    requires="mmcv>=1.3,<3",
    needs="mx_driving",
    legacy_names=["mdc", "modulated_deform_conv"],
    checks=pc.Check(
        "mmcv_npu.checks.modulated_deform_conv:called", dtypes={"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
    ),
)
