"""Convolutions: plain, transposed and deformable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn import functional

from npu_emulator.errors import NotEmulated
from npu_emulator.formulas.sampling import bilinear
from npu_emulator.torch_npu.ops.registry import operator, with_out

__all__ = [
    "npu_conv2d",
    "npu_conv2d_out",
    "npu_conv3d",
    "npu_conv3d_out",
    "npu_conv_transpose2d",
    "npu_convolution",
    "npu_convolution_transpose",
    "npu_deformable_conv2d",
    "npu_deformable_conv2dbk",
]

_CONVOLUTION = (
    "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor"
)
_TRANSPOSED_CONVOLUTION = (
    "(Tensor input, Tensor weight, Tensor? bias, int[] padding, int[] output_padding, int[] stride, int[] dilation,"
    " int groups) -> Tensor"
)


@operator(f"npu_convolution{_CONVOLUTION}")
def npu_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolve in two or three dimensions, as many as ``weight`` has beyond two.

    Args:
        input: shape (n, c_in, [d,] h, w).
        weight: shape (c_out, c_in / groups, [kd,] kh, kw).
        bias: shape (c_out,), or ``None``.
        stride: one number per dimension, or one for all.
        padding: likewise, zeros on both sides.
        dilation: likewise.
        groups: divides c_in and c_out.
    """
    convolve = {4: functional.conv2d, 5: functional.conv3d}.get(weight.dim())
    if convolve is None:
        raise ValueError(f"npu_convolution: expected weight of 4 or 5 dimensions, found shape {tuple(weight.shape)}")
    return convolve(input, weight, bias, stride, padding, dilation, groups)


@operator(f"npu_conv2d{_CONVOLUTION}", differentiable=False)
def npu_conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolve in two dimensions; op-plugin has no derivative of it, but of :func:`npu_convolution`.

    Args:
        input: shape (n, c_in, h, w).
        weight: shape (c_out, c_in / groups, kh, kw).
        bias: shape (c_out,), or ``None``.
        stride: one number for both dimensions, or (vertical, horizontal).
        padding: likewise, zeros on both sides.
        dilation: likewise.
        groups: divides c_in and c_out.
    """
    return functional.conv2d(input, weight, bias, stride, padding, dilation, groups)


@operator(f"npu_conv3d{_CONVOLUTION}", differentiable=False)
def npu_conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolve in three dimensions; op-plugin has no derivative of it, but of :func:`npu_convolution`.

    Args:
        input: shape (n, c_in, d, h, w).
        weight: shape (c_out, c_in / groups, kd, kh, kw).
        bias: shape (c_out,), or ``None``.
        stride: one number for all dimensions, or one for each.
        padding: likewise, zeros on both sides.
        dilation: likewise.
        groups: divides c_in and c_out.
    """
    return functional.conv3d(input, weight, bias, stride, padding, dilation, groups)


@operator(f"npu_convolution_transpose{_TRANSPOSED_CONVOLUTION}")
def npu_convolution_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    padding: Sequence[int],
    output_padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolve transposed, in two or three dimensions, as many as ``weight`` has beyond two.

    Args:
        input: shape (n, c_in, [d,] h, w).
        weight: shape (c_in, c_out / groups, [kd,] kh, kw).
        bias: shape (c_out,), or ``None``.
        padding: one number per dimension, or one for all, of the convolution that this is the transpose of.
        output_padding: likewise, added to the size of the result on one side.
        stride: likewise.
        dilation: likewise.
        groups: divides c_in and c_out.
    """
    convolve = {4: functional.conv_transpose2d, 5: functional.conv_transpose3d}.get(weight.dim())
    if convolve is None:
        raise ValueError(
            f"npu_convolution_transpose: expected weight of 4 or 5 dimensions, found shape {tuple(weight.shape)}"
        )
    return convolve(input, weight, bias, stride, padding, output_padding, groups, dilation)


@operator(f"npu_conv_transpose2d{_TRANSPOSED_CONVOLUTION}", differentiable=False)
def npu_conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    padding: Sequence[int],
    output_padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolve transposed in two dimensions; op-plugin has a derivative only of :func:`npu_convolution_transpose`.

    Args:
        input: shape (n, c_in, h, w).
        weight: shape (c_in, c_out / groups, kh, kw).
        bias: shape (c_out,), or ``None``.
        padding: one number for both dimensions, or (vertical, horizontal).
        output_padding: likewise, added to the size of the result on one side.
        stride: likewise.
        dilation: likewise.
        groups: divides c_in and c_out.
    """
    return functional.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)


class _Deformation(NamedTuple):
    """The arguments of a deformable convolution that are no tensors, as its operators take them."""

    name: str
    kernel_size: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int
    deformable_groups: int
    modulated: bool


@operator(
    "npu_deformable_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? bias, int[2] kernel_size, int[] stride,"
    " int[] padding, int[4] dilation=[1,1,1,1], int groups=1, int deformable_groups=1, bool modulated=True)"
    " -> (Tensor, Tensor)",
    differentiable=(0,),
)
def npu_deformable_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Optional[Tensor],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    modulated: bool = True,
) -> tuple[Tensor, Tensor]:
    """Convolve with taps that are displaced and weighted one by one (Zhu et al., arXiv:1811.11168).

    The documentation describes the tensors of the underlying kernel, in NHWC. Here they are as PyTorch code passes
    them (its example, and ``ModulatedDeformConv2dFunction._npu_forward`` of mmcv 2.1.0), in NCHW.

    Args:
        input: shape (n, c_in, h, w).
        weight: shape (c_out, c_in / groups, kh, kw).
        offset: shape (n, 3 * deformable_groups * kh * kw, h_out, w_out): first the horizontal displacement of every
            tap of every deformable group, in pixels, then every vertical one, then every weight.
        bias: shape (c_out,), or ``None``.
        kernel_size: taps in both directions. Only their number counts; mmcv passes (kw, kh).
        stride: (1, 1, vertical, horizontal).
        padding: (top, bottom, left, right), in pixels.
        dilation: (1, 1, vertical, horizontal).
        groups: divides c_in and c_out.
        deformable_groups: groups of channels with displacements and weights of their own.
        modulated: ``True``; the device has no other.

    Returns:
        The result, shape (n, c_out, h_out, w_out), and the samples of the taps, already weighted: shape (n, c_in, h_out
        * kh, w_out * kw), for :func:`npu_deformable_conv2dbk`.

    Raises:
        NotEmulated: not modulated.
        ValueError: the shapes do not fit.
    """
    deformation = _Deformation(
        "npu_deformable_conv2d", kernel_size, stride, padding, dilation, groups, deformable_groups, modulated
    )
    sampled = _sampled(input, weight, offset, deformation)
    return functional.conv2d(sampled, weight, bias, stride=tuple(weight.shape[2:]), groups=groups), sampled


@operator(
    "npu_deformable_conv2dbk(Tensor input, Tensor grad_output, Tensor offset_out, Tensor weight, Tensor offset,"
    " int[2] kernel_size, int[] stride, int[] padding, int[4] dilation=[1,1,1,1], int groups=1,"
    " int deformable_groups=1, bool modulated=True) -> (Tensor, Tensor, Tensor, Tensor)",
    differentiable=False,
)
def npu_deformable_conv2dbk(
    input: Tensor,
    grad_output: Tensor,
    offset_out: Tensor,
    weight: Tensor,
    offset: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    modulated: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of :func:`npu_deformable_conv2d`, of which the arguments not listed are the same.

    Args:
        input: as given to it.
        grad_output: gradient with respect to its first output.
        offset_out: its second output.
        weight: as given to it.
        offset: as given to it.
        kernel_size: likewise.
        stride: likewise.
        padding: likewise.
        dilation: likewise.
        groups: likewise.
        deformable_groups: likewise.
        modulated: likewise.

    Returns:
        The gradients with respect to input, weight, offset and bias.
    """
    deformation = _Deformation(
        "npu_deformable_conv2dbk", kernel_size, stride, padding, dilation, groups, deformable_groups, modulated
    )
    grad_sampled, grad_weight = _strided_convolution_gradients(offset_out, weight, grad_output, groups)
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in (input, offset)]
        sampled = _sampled(leaves[0], weight.detach(), leaves[1], deformation)
    grad_input, grad_offset = torch.autograd.grad(sampled, leaves, grad_sampled)
    return grad_input, grad_weight, grad_offset, grad_output.sum(dim=(0, 2, 3))


def _strided_convolution_gradients(
    sampled: Tensor, weight: Tensor, grad_output: Tensor, groups: int
) -> tuple[Tensor, Tensor]:
    """Gradients of the convolution, whose stride is the size of its kernel, with respect to samples and weight."""
    with torch.enable_grad():
        leaves: Any = [tensor.detach().requires_grad_() for tensor in (sampled, weight)]
        output = functional.conv2d(*leaves, stride=tuple(weight.shape[2:]), groups=groups)
    grad_sampled, grad_weight = torch.autograd.grad(output, leaves, grad_output)
    return grad_sampled, grad_weight


def _sampled(input: Tensor, weight: Tensor, offset: Tensor, deformation: _Deformation) -> Tensor:
    """Return the weighted samples of the taps: a convolution with a stride of the kernel's size remains."""
    _check(input, weight, offset, deformation)
    batch, channels, height, width = input.shape
    kernel_height, kernel_width = weight.shape[2:]
    out_height, out_width = offset.shape[2:]
    groups = deformation.deformable_groups

    # Everything of a tap has the shape (batch * groups, kernel_height, kernel_width, out_height, out_width).
    taps = (3, batch * groups, kernel_height, kernel_width, out_height, out_width)
    by_kind = offset.reshape(batch, 3, groups, kernel_height * kernel_width, out_height, out_width).transpose(0, 1)
    displacement_x, displacement_y, tap_weight = by_kind.reshape(taps).unbind()
    grid_y = _grid(offset, kernel_height, out_height, deformation.stride[2], deformation.dilation[2])
    grid_x = _grid(offset, kernel_width, out_width, deformation.stride[3], deformation.dilation[3])
    top, _, left, _ = deformation.padding
    y = grid_y.view(kernel_height, 1, out_height, 1) - top + displacement_y
    x = grid_x.view(1, kernel_width, 1, out_width) - left + displacement_x

    per_group = input.reshape(batch * groups, channels // groups, height, width)
    seen = bilinear(per_group, y.flatten(1), x.flatten(1)).unflatten(-1, taps[2:]) * tap_weight.unsqueeze(1)
    side_by_side = seen.permute(0, 1, 4, 2, 5, 3)
    return side_by_side.reshape(batch, channels, out_height * kernel_height, out_width * kernel_width)


def _grid(like: Tensor, taps: int, size: int, stride: int, dilation: int) -> Tensor:
    """Positions of the taps along one axis before padding and displacement, shape (taps, size)."""
    tap = torch.arange(taps, dtype=like.dtype, device=like.device) * dilation
    output = torch.arange(size, dtype=like.dtype, device=like.device) * stride
    return tap.unsqueeze(-1) + output


def _check(input: Tensor, weight: Tensor, offset: Tensor, deformation: _Deformation) -> None:
    """Raise unless the arguments of a deformable convolution fit together."""
    name = deformation.name
    if not deformation.modulated:
        raise NotEmulated(f"{name}: modulated=False is not supported by the device either; pass weights of 1 instead")
    if sorted(deformation.kernel_size) != sorted(weight.shape[2:]):
        raise ValueError(
            f"{name}: expected kernel_size {tuple(weight.shape[2:])} as weight has, found {deformation.kernel_size}"
        )
    for argument, length in (("stride", 4), ("padding", 4), ("dilation", 4)):
        found = getattr(deformation, argument)
        if len(found) != length:
            raise ValueError(f"{name}: expected {argument} of {length} numbers, found {list(found)}")
    top, bottom, left, right = deformation.padding
    sizes = []
    for axis, padded in ((2, input.shape[2] + top + bottom), (3, input.shape[3] + left + right)):
        covered = deformation.dilation[axis] * (weight.shape[axis] - 1) + 1
        sizes.append((padded - covered) // deformation.stride[axis] + 1)
    taps = weight.shape[2] * weight.shape[3]
    expected = (input.shape[0], 3 * deformation.deformable_groups * taps, *sizes)
    if tuple(offset.shape) != expected:
        raise ValueError(f"{name}: expected offset of shape {expected}, found {tuple(offset.shape)}")


npu_conv2d_out = with_out(npu_conv2d)
npu_conv3d_out = with_out(npu_conv3d)
