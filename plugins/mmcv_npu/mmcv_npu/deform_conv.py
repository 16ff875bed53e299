"""Deformable convolution, version 1 and 2, on the kernels of mx_driving where they fit.

The kernels (distribution mx-driving 26.2) take float32, one deformable group and channels in multiples of 64, do not
cast dtypes as mmcv does, and drop a bias without a word. Other shapes are computed by
``torch_npu.npu_deformable_conv2d``, which autograd differentiates. mmcv's own NPU path calls that operator too, but has
no backward pass from torch_npu 2.1 on, where ``torch.npu_deformable_conv2dbk`` is gone (mmcv-full 1.7.2 has no forward
pass there either). Half precision is cast to float32 and the result back. The classes stay, because mmcv's path for
other devices uses their helpers; their ``apply`` chooses, call by call.

mmcv computes in the dtype of the offset, which autocast chooses for the layer that predicts it (mmcv 1.7.2 and
2.1.0, ``mmcv/ops/deform_conv.py``). So is the result's dtype here.
"""

from __future__ import annotations

from typing import Any, Optional

import patchcore as pc
from mmcv_npu import kernels, other_paths

_OPERATOR = "torch_npu.npu_deformable_conv2d"


def takes_deform_conv(cls: type, x: Any, offset: Any, weight: Any, *geometry: Any) -> bool:
    """Return whether a call is not for mmcv: it is on the NPU, or one for the stand-in of the kernel.

    Args:
        cls: the class whose ``apply`` is called.
        x: (batch, channels, height, width).
        offset: (batch, 2 * deform_groups * kernel height * kernel width, out height, out width), in pixels.
        weight: (out channels, channels / groups, kernel height, kernel width).
        geometry: stride, padding, dilation, groups, deform_groups, bias, im2col_step, as far as given. mmcv refuses a
            true ``bias``, and keeps doing so.
    """
    return _takes(x, _limit(x, offset, geometry)) and not any(geometry[5:6])


def deform_conv2d(cls: type, x: Any, offset: Any, weight: Any, *geometry: Any) -> Any:
    """Replace ``DeformConv2dFunction.apply``: run the kernel in float32, return the dtype of the offset.

    Arguments: see :func:`takes_deform_conv`.
    """
    limit = _limit(x, offset, geometry)
    with kernels.without_autocast(x):
        if limit is None:
            from mx_driving import deform_conv2d as kernel

            out = kernel(x.float(), offset.float(), weight.float(), *geometry)
        else:
            out = _by_operator(DEFORM_CONV, limit, x, offset, None, weight, geometry)
    return out.type_as(offset)


def takes_modulated_deform_conv(
    cls: type, x: Any, offset: Any, mask: Any, weight: Any, bias: Any = None, *geometry: Any
) -> bool:
    """Return whether a call is not for mmcv: it is on the NPU, or one for the stand-in of the kernel.

    Args:
        cls: the class whose ``apply`` is called.
        x: (batch, channels, height, width).
        offset: (batch, 2 * deform_groups * kernel height * kernel width, out height, out width), in pixels; or larger
            maps, see :func:`_of_size`.
        mask: (batch, deform_groups * kernel height * kernel width, out height, out width), or larger maps.
        weight: (out channels, channels / groups, kernel height, kernel width).
        bias: (out channels,), or ``None``.
        geometry: stride, padding, dilation, groups, deform_groups, as far as given.
    """
    return _takes(x, _modulated_limit(x, offset, weight, geometry))


def modulated_deform_conv2d(
    cls: type, x: Any, offset: Any, mask: Any, weight: Any, bias: Any = None, *geometry: Any
) -> Any:
    """Replace ``ModulatedDeformConv2dFunction.apply``: run the kernel in float32, add the bias, return offset's dtype.

    Arguments: see :func:`takes_modulated_deform_conv`.
    """
    limit = _modulated_limit(x, offset, weight, geometry)
    if x.dim() == 4:
        size = _out_size(x, weight, geometry)
        offset, mask = _of_size(offset, size), _of_size(mask, size)
    with kernels.without_autocast(x):
        if limit is None:
            from mx_driving import modulated_deform_conv2d as kernel

            out = kernel(x.float(), offset.float(), mask.float(), weight.float(), None, *geometry)
        else:
            out = _by_operator(MODULATED_DEFORM_CONV, limit, x, offset, mask, weight, geometry)
    if bias is not None:
        out = out + bias.type_as(out).view(1, -1, 1, 1)
    return out.type_as(offset)


def _out_size(x: Any, weight: Any, geometry: tuple[Any, ...]) -> list[int]:
    """Return height and width of the result."""
    ways = zip(x.shape[2:], weight.shape[2:], *_steps(geometry))
    return [(size + 2 * pad - gap * (taps - 1) - 1) // step + 1 for size, taps, step, pad, gap in ways]


def _of_size(maps: Any, size: list[int]) -> Any:
    """Return the part that mmcv's kernels read of maps that are larger than the result.

    They count through the memory of an image as if its maps had the size of the result. DyHead of mmdet convolves the
    next level of a pyramid with the offsets of this one (``mmdet/models/necks/dyhead.py``), and is trained so.

    Args:
        maps: (batch, channels, height, width).
        size: height and width of the result.
    """
    needed = maps.shape[1] * size[0] * size[1]
    if list(maps.shape[2:]) == size or maps.shape[1:].numel() < needed:  # the kernel says that they are too small
        return maps
    return maps.flatten(1)[:, :needed].reshape(len(maps), maps.shape[1], *size)


def _takes(x: Any, limit: Optional[str]) -> bool:
    return kernels.takes(x) and x.dim() == 4 and (limit is None or x.device.type == "npu")


def _limit(x: Any, offset: Any, geometry: tuple[Any, ...]) -> Optional[str]:
    """Return which limit of the kernels a call is outside of, ``None`` if it is within all."""
    if x.dim() != 4 or not x.numel():
        return "the kernel takes no empty tensors"
    if x.shape[1] % 64:
        return "the kernel takes channels in multiples of 64"
    if _deform_groups(geometry) != 1:
        return "the kernel takes one deformable group"
    return None if kernels.takes_dtype(offset) else "the kernel computes in float32"


def _modulated_limit(x: Any, offset: Any, weight: Any, geometry: tuple[Any, ...]) -> Optional[str]:
    limit = _limit(x, offset, geometry)
    if limit is None and weight.shape[0] % 64:
        return "the kernel makes channels in multiples of 64"
    if limit is None and tuple(weight.shape[2:]) != (3, 3):
        return "the kernel takes windows of 3 x 3"
    return limit


def _deform_groups(geometry: tuple[Any, ...]) -> Any:
    """The fifth of stride, padding, dilation, groups, deform_groups; 1 when it is left out."""
    return geometry[4] if len(geometry) > 4 else 1


def _by_operator(
    patch: pc.Patch, limit: str, x: Any, offset: Any, mask: Any, weight: Any, geometry: tuple[Any, ...]
) -> Any:
    """Convolve with torch_npu's operator, in float32; without a mask every tap counts fully.

    Raises:
        TypeError: the offset, and so the result, is in float64, which the operator does not have.
    """
    import torch

    if not kernels.takes_dtype(offset):
        raise TypeError(
            f"deformable convolution on the NPU (patch {patch.name}): expected float32, float16 or bfloat16, found an "
            f"offset in {offset.dtype}; cast it with .float(), or compute on the CPU (--disable {patch.name})"
        )
    stride, padding, dilation = _steps(geometry)
    groups, deform_groups = geometry[3] if len(geometry) > 3 else 1, _deform_groups(geometry)
    x, offset, weight = x.float(), offset.float(), weight.float()
    call = f"input {_size(x)}, weight {_size(weight)}, groups {groups}, deform_groups {deform_groups}"
    if not x.numel():
        other_paths.note(patch.name, call, "torch.nn.functional.conv2d", limit)
        # Of the right shape. The sums are zero, and make the gradients zeros.
        out = torch.nn.functional.conv2d(x, weight, None, stride, padding, dilation, groups) + offset.sum()
        return out if mask is None else out + mask.sum()
    import torch_npu

    other_paths.note(patch.name, call, _OPERATOR, limit)
    mask = torch.ones_like(offset[:, ::2]) if mask is None else mask.float()
    height, width = weight.shape[2:]
    out, _ = torch_npu.npu_deformable_conv2d(
        x,
        weight,
        torch.cat([offset[:, 1::2], offset[:, ::2], mask], dim=1),  # horizontal, vertical; mmcv has them in turn
        None,
        kernel_size=[width, height],
        stride=[1, 1, *stride],
        padding=[padding[0], padding[0], padding[1], padding[1]],
        dilation=[1, 1, *dilation],
        groups=groups,
        deformable_groups=deform_groups,
        modulated=True,
    )
    return out


def _steps(geometry: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """Return stride, padding and dilation, each down and across."""
    return tuple(_pair(value) for value in (*geometry[:3], *(1, 0, 1)[len(geometry[:3]) :]))


def _pair(value: Any) -> tuple[Any, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _size(tensor: Any) -> str:
    return " x ".join(map(str, tensor.shape))


def bound_again(apply: Any) -> Any:
    """Return the present ``Function.apply`` for one that was bound earlier.

    mmcv binds ``deform_conv2d = DeformConv2dFunction.apply`` once, when its module is imported.
    """
    return apply.__self__.apply


DEFORM_CONV = pc.Patch(
    "mmcv.deform_conv",
    [
        pc.Replace(
            "mmcv.ops.deform_conv:DeformConv2dFunction.apply",
            deform_conv2d,
            when_call=takes_deform_conv,
        ),
        pc.Replace("mmcv.ops.deform_conv:deform_conv2d", factory=bound_again),
    ],
    summary="DeformConv2d on the mx_driving kernel",
    requires="mmcv>=1.3,<3",
    when=kernels.operators_are_built,
    needs="mx_driving",
    legacy_names=["dc", "deform_conv", "DeformConv"],
    checks=pc.Check("mmcv_npu.checks.deform_conv:called", dtypes={"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}),
)

MODULATED_DEFORM_CONV = pc.Patch(
    "mmcv.modulated_deform_conv",
    [
        pc.Replace(
            "mmcv.ops.modulated_deform_conv:ModulatedDeformConv2dFunction.apply",
            modulated_deform_conv2d,
            when_call=takes_modulated_deform_conv,
        ),
        pc.Replace("mmcv.ops.modulated_deform_conv:modulated_deform_conv2d", factory=bound_again),
    ],
    summary="ModulatedDeformConv2d on the mx_driving kernel",
    requires="mmcv>=1.3,<3",
    when=kernels.operators_are_built,
    needs="mx_driving",
    legacy_names=["mdc", "modulated_deform_conv", "ModulatedDeformConv"],
    checks=pc.Check(
        "mmcv_npu.checks.modulated_deform_conv:called", dtypes={"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
    ),
)
