"""Deformable convolution, with and without modulation, for the two kernels that use it.

Papers: Dai et al., "Deformable Convolutional Networks" (arXiv:1703.06211); Zhu et al., "Deformable ConvNets v2"
(arXiv:1811.11168). The channel order of offsets and mask is that of mmcv 2.1.0.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor

from npu_emulator.formulas.sampling import corners, weighted_rows

PairOfInts = tuple[int, int]


class Geometry(NamedTuple):
    """Geometry of the taps of a deformable convolution; every pair is (vertical, horizontal), in pixels."""

    stride: PairOfInts
    padding: PairOfInts
    dilation: PairOfInts
    groups: int
    deformable_groups: int


def pair(value: Union[int, tuple[int, ...]]) -> PairOfInts:
    """Return (vertical, horizontal) of an argument that may be one number for both."""
    vertical, horizontal = (value, value) if isinstance(value, int) else value
    return vertical, horizontal


def check_shapes(
    kernel: str, x: Tensor, offset: Tensor, mask: Optional[Tensor], weight: Tensor, geometry: Geometry
) -> None:
    """Check that the tensors of a call fit together.

    Args:
        kernel: name of the kernel, for the message.
        x: as for :func:`deformable_convolution`, and so are the others.
        offset: likewise.
        mask: likewise.
        weight: likewise.
        geometry: likewise.

    Raises:
        ValueError: a tensor has another shape or dtype than the call needs.
    """
    tensors = {"x": x, "offset": offset, "weight": weight}
    if mask is not None:
        tensors["mask"] = mask
    for name, tensor in tensors.items():
        if tensor.dim() != 4:
            raise ValueError(f"mx_driving.{kernel}: expected {name} with 4 dimensions, found {tuple(tensor.shape)}")
        if tensor.dtype != x.dtype:
            raise ValueError(
                f"mx_driving.{kernel}: expected {name} of x's dtype {x.dtype}, found {tensor.dtype}; "
                f"pass {name}.type_as(x)"
            )

    channels, groups = x.shape[1], geometry.groups
    if weight.shape[1] * groups != channels or weight.shape[0] % groups:
        raise ValueError(
            f"mx_driving.{kernel}: expected weight of shape (c_out, {channels} / {groups} groups, kh, kw) with c_out "
            f"a multiple of {groups}, found {tuple(weight.shape)}"
        )
    if channels % geometry.deformable_groups:
        raise ValueError(
            f"mx_driving.{kernel}: expected x's {channels} channels to be a multiple of deformable_groups, "
            f"found deformable_groups={geometry.deformable_groups}"
        )
    taps = weight.shape[2] * weight.shape[3] * geometry.deformable_groups
    expected = {"offset": (x.shape[0], 2 * taps, *_output_size(x, weight, geometry))}
    if mask is not None:
        expected["mask"] = (x.shape[0], taps, *_output_size(x, weight, geometry))
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(
                f"mx_driving.{kernel}: expected {name} of shape {shape}, found {tuple(tensors[name].shape)}"
            )


def deformable_convolution(
    x: Tensor, offset: Tensor, mask: Optional[Tensor], weight: Tensor, geometry: Geometry
) -> Tensor:
    """Convolve with taps that are displaced, and optionally weighted, one by one.

    Args:
        x: shape (n, c_in, h_in, w_in).
        offset: displacement of each tap in pixels, shape (n, deformable_groups * kh * kw * 2, h_out, w_out), the last
            factor being (vertical, horizontal).
        mask: weight of each tap, shape (n, deformable_groups * kh * kw, h_out, w_out), or ``None`` for 1.
        weight: shape (c_out, c_in / groups, kh, kw).
        geometry: stride, padding, dilation and groups.

    Returns:
        Shape (n, c_out, h_out, w_out), differentiable in all tensors.
    """
    batch, channels, height, width = x.shape
    out_channels, group_channels, kernel_height, kernel_width = weight.shape
    out_height, out_width = offset.shape[2:]
    deformable_groups = geometry.deformable_groups
    taps = kernel_height * kernel_width

    # All positions have the shape (batch, out_height, out_width, taps, deformable_groups).
    displacement = offset.reshape(batch, deformable_groups, taps, 2, out_height, out_width)
    displacement_y, displacement_x = displacement.permute(0, 4, 5, 2, 1, 3).unbind(dim=-1)
    grid_y, grid_x = _regular_grid(offset, (kernel_height, kernel_width), geometry)
    index, corner_weight = corners(grid_y + displacement_y, grid_x + displacement_x, height, width)
    if mask is not None:
        tap_weight = mask.reshape(batch, deformable_groups, taps, out_height, out_width).permute(0, 3, 4, 2, 1)
        corner_weight = corner_weight * tap_weight.unsqueeze(-1)

    # One table row per image, pixel and deformable group: the samples have the shape (..., taps, channels).
    table = x.permute(0, 2, 3, 1).reshape(-1, channels // deformable_groups)
    image = torch.arange(batch, device=x.device).view(batch, 1, 1, 1, 1, 1)
    group = torch.arange(deformable_groups, device=x.device).view(1, 1, 1, 1, deformable_groups, 1)
    sampled = weighted_rows(table, (image * (height * width) + index) * deformable_groups + group, corner_weight)

    sampled = sampled.reshape(-1, taps, geometry.groups, group_channels)
    grouped = weight.reshape(geometry.groups, out_channels // geometry.groups, group_channels, taps)
    output = torch.einsum("ltgc,goct->lgo", sampled, grouped)
    return output.reshape(batch, out_height, out_width, out_channels).permute(0, 3, 1, 2).contiguous()


def _regular_grid(offset: Tensor, kernel_size: PairOfInts, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """Positions of the taps before displacement, each of shape (out_height or 1, out_width or 1, taps, 1)."""
    positions = []
    for axis in (0, 1):
        output = torch.arange(offset.shape[2 + axis], device=offset.device, dtype=offset.dtype)
        tap = torch.arange(kernel_size[axis], device=offset.device, dtype=offset.dtype)
        start = output * geometry.stride[axis] - geometry.padding[axis]
        positions.append(start.unsqueeze(-1) + tap * geometry.dilation[axis])
    y, x = positions
    out_height, out_width = y.shape[0], x.shape[0]
    kernel_height, kernel_width = kernel_size
    y = y.view(out_height, 1, kernel_height, 1).expand(-1, -1, -1, kernel_width)
    x = x.view(1, out_width, 1, kernel_width).expand(-1, -1, kernel_height, -1)
    return y.reshape(out_height, 1, -1, 1), x.reshape(1, out_width, -1, 1)


def _output_size(x: Tensor, weight: Tensor, geometry: Geometry) -> PairOfInts:
    sizes = []
    for axis in (0, 1):
        covered = geometry.dilation[axis] * (weight.shape[2 + axis] - 1) + 1
        sizes.append((x.shape[2 + axis] + 2 * geometry.padding[axis] - covered) // geometry.stride[axis] + 1)
    return sizes[0], sizes[1]
