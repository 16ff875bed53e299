"""Deformable convolution (mx-driving 26.2, ``mx_driving/ops/deform_conv2d.py``)."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional, Union

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._deformable import Geometry, check_shapes, deformable_convolution, pair


class DeformConv2dFunction(Function):
    """Deformable convolution. ``forward`` and ``backward`` also work when called on a ctx of somebody else."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        offset: Tensor,
        weight: Tensor,
        stride: Union[int, tuple[int, ...]] = 1,
        padding: Union[int, tuple[int, ...]] = 0,
        dilation: Union[int, tuple[int, ...]] = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = False,
        im2col_step: int = 32,
    ) -> Tensor:
        """Convolve; see :func:`deform_conv2d`."""
        geometry = Geometry(pair(stride), pair(padding), pair(dilation), groups, deformable_groups)
        limits.require(x.shape[1] % 64 == 0, "deform_conv2d", "a multiple of 64 input channels", x.shape[1])
        limits.require(deformable_groups == 1, "deform_conv2d", "deformable_groups=1", deformable_groups)
        check_shapes("deform_conv2d", x, offset, None, weight, geometry)
        calls["deform_conv2d"] += 1
        ctx.geometry = geometry
        ctx.save_for_backward(x, offset, weight)
        return _convolve(x, offset, weight, geometry=geometry)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of x, offset and weight, and ``None`` for the seven other arguments."""
        calls["deform_conv2d_backward"] += 1
        grads = gradients(partial(_convolve, geometry=ctx.geometry), ctx.saved_tensors, grad_output)
        return (*grads, None, None, None, None, None, None, None)


def deform_conv2d(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    stride: Union[int, tuple[int, ...]] = 1,
    padding: Union[int, tuple[int, ...]] = 0,
    dilation: Union[int, tuple[int, ...]] = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    bias: bool = False,
    im2col_step: int = 32,
) -> Tensor:
    """Convolve with taps that are displaced one by one.

    Args:
        x: shape (n, c_in, h_in, w_in); on the device float32, c_in a multiple of 64.
        offset: shape (n, deformable_groups * kh * kw * 2, h_out, w_out), in pixels, (vertical, horizontal).
        weight: shape (c_out, c_in / groups, kh, kw).
        stride: one number, or (vertical, horizontal).
        padding: likewise, in pixels.
        dilation: likewise.
        groups: divides c_in and c_out.
        deformable_groups: groups of channels with offsets of their own; 1 on the device.
        bias: ignored, as in mx_driving; mmcv passes ``False`` here.
        im2col_step: ignored, as in mx_driving.

    Returns:
        Shape (n, c_out, h_out, w_out).

    Raises:
        LimitError: the arguments are outside the limits of the device, which mx-driving documents and does not check.
        ValueError: the tensors do not fit together.
    """
    return DeformConv2dFunction.apply(
        x, offset, weight, stride, padding, dilation, groups, deformable_groups, bias, im2col_step
    )


def _convolve(x: Tensor, offset: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    return deformable_convolution(x, offset, None, weight, geometry)
