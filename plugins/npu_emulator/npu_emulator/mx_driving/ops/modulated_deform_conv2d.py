"""Modulated deformable convolution (mx-driving 26.2, ``mx_driving/ops/modulated_deform_conv2d.py``)."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._deformable import Geometry, check_shapes, deformable_convolution, pair


class ModulatedDeformConv2dFunction(Function):
    """Modulated deformable convolution. ``forward`` and ``backward`` also work on a ctx of somebody else.

    Under autocast the inputs become float32, as in mx_driving on Ascend 910.
    """

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        x: Tensor,
        offset: Tensor,
        mask: Tensor,
        weight: Tensor,
        bias: Optional[Tensor] = None,
        stride: Union[int, tuple[int, ...]] = 1,
        padding: Union[int, tuple[int, ...]] = 0,
        dilation: Union[int, tuple[int, ...]] = 1,
        groups: int = 1,
        deformable_groups: int = 1,
    ) -> Tensor:
        """Convolve; see :func:`modulated_deform_conv2d`."""
        geometry = Geometry(pair(stride), pair(padding), pair(dilation), groups, deformable_groups)
        _require_limits(x, weight, bias, deformable_groups)
        check_shapes("modulated_deform_conv2d", x, offset, mask, weight, geometry)
        calls["modulated_deform_conv2d"] += 1
        ctx.geometry = geometry
        ctx.with_bias = bias is not None
        ctx.save_for_backward(x, offset, mask, weight)
        output = deformable_convolution(x, offset, mask, weight, geometry)
        return output if bias is None else output + bias.view(1, -1, 1, 1)

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of x, offset, mask, weight and bias, and ``None`` for the five other arguments.

        Without bias, so always on the device, its gradient is ``None`` too.
        """
        calls["modulated_deform_conv2d_backward"] += 1
        grads = gradients(partial(deformable_convolution, geometry=ctx.geometry), ctx.saved_tensors, grad_output)
        grad_bias = grad_output.sum(dim=(0, 2, 3)) if ctx.with_bias else None
        return (*grads, grad_bias, None, None, None, None, None)


def modulated_deform_conv2d(
    x: Tensor,
    offset: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Union[int, tuple[int, ...]] = 1,
    padding: Union[int, tuple[int, ...]] = 0,
    dilation: Union[int, tuple[int, ...]] = 1,
    groups: int = 1,
    deformable_groups: int = 1,
) -> Tensor:
    """Convolve with taps that are displaced and weighted one by one.

    Args:
        x: shape (n, c_in, h_in, w_in); on the device float32, c_in a multiple of 64.
        offset: shape (n, deformable_groups * kh * kw * 2, h_out, w_out), in pixels, (vertical, horizontal).
        mask: shape (n, deformable_groups * kh * kw, h_out, w_out).
        weight: shape (c_out, c_in / groups, kh, kw); cast to the dtype of x. On the device c_out is a multiple of 64
            and the kernel 3 x 3.
        bias: ``None``: the device ignores one without a word. With limits lifted, shape (c_out,), added.
        stride: one number, or (vertical, horizontal).
        padding: likewise, in pixels.
        dilation: likewise.
        groups: divides c_in and c_out.
        deformable_groups: groups of channels with offsets and mask of their own; 1 on the device.

    Returns:
        Shape (n, c_out, h_out, w_out).

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: the tensors do not fit together.
    """
    weight = weight.type_as(x)
    return ModulatedDeformConv2dFunction.apply(
        x, offset, mask, weight, bias, stride, padding, dilation, groups, deformable_groups
    )


def _require_limits(x: Tensor, weight: Tensor, bias: Optional[Tensor], deformable_groups: int) -> None:
    """Check limits that mx_driving checks (kernel size, channels) or only documents (bias, deformable_groups)."""
    kernel = "modulated_deform_conv2d"
    kernel_size = tuple(weight.shape[2:])
    channels = (x.shape[1], weight.shape[0])
    limits.require(kernel_size == (3, 3), kernel, "a 3 x 3 kernel", kernel_size)
    limits.require(all(c % 64 == 0 for c in channels), kernel, "multiples of 64 input and output channels", channels)
    limits.require(deformable_groups == 1, kernel, "deformable_groups=1", deformable_groups)
    limits.require(bias is None, kernel, "bias=None (it drops a bias: add it to the result)", "a bias")
