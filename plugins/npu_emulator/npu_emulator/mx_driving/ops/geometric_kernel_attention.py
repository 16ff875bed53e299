"""Attention to whole pixels (mx-driving 26.2, ``mx_driving/ops/geometric_kernel_attention.py``).

Paper: Chen et al., "Efficient and Robust 2D-to-BEV Representation Learning via Geometry-guided Kernel Transformer"
(arXiv:2206.04584).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.formulas.sampling import weighted_rows
from npu_emulator.mx_driving._counting import calls


class GeometricKernelAttentionFunc(Function):
    """Weighted sums of pixels, without interpolation."""

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        spatial_shapes: Tensor,
        level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
    ) -> Tensor:
        """Pick, weigh and sum values.

        Args:
            ctx: the autograd context.
            value: the feature maps of all levels, flattened, shape (n, keys, heads, channels); on the device float32.
            spatial_shapes: (height, width) of each level, integers of shape (levels, 2).
            level_start_index: index of each level's first key, integers of shape (levels,).
            sampling_locations: shape (n, queries, heads, levels, points, 2), (x, y) **in pixels**, whole numbers of
                any dtype; those outside are moved to the nearest border.
            attention_weights: shape (n, queries, heads, levels, points).

        Returns:
            Shape (n, queries, heads * channels).
        """
        calls["geometric_kernel_attention"] += 1
        row = _rows(value, spatial_shapes, level_start_index, sampling_locations)
        ctx.attend = partial(_attend, row=row)
        ctx.save_for_backward(value, attention_weights)
        return ctx.attend(value, attention_weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return five gradients: of value, ``None``, ``None``, ``None``, of attention_weights.

        Raises:
            LimitError: the arguments are outside the limits of the device; only its backward kernel has limits.
        """
        value, attention_weights = ctx.saved_tensors
        _require_limits(value, attention_weights)
        calls["geometric_kernel_attention_backward"] += 1
        grad_value, grad_weights = gradients(ctx.attend, (value, attention_weights), grad_output)
        return grad_value, None, None, None, grad_weights


# Bound as in mx_driving: positional arguments only.
geometric_kernel_attention = GeometricKernelAttentionFunc.apply


def _rows(value: Tensor, spatial_shapes: Tensor, level_start_index: Tensor, sampling_locations: Tensor) -> Tensor:
    """Return the row of the flattened value that each point picks, (n, queries, heads, levels * points)."""
    batch, keys, heads, _ = value.shape
    height, width = spatial_shapes.long().view(1, 1, 1, -1, 1, 2).unbind(dim=-1)
    x, y = sampling_locations.long().unbind(dim=-1)
    x, y = torch.minimum(x.clamp(min=0), width - 1), torch.minimum(y.clamp(min=0), height - 1)
    key = level_start_index.long().view(1, 1, 1, -1, 1) + y * width + x
    image = torch.arange(batch, device=value.device).view(batch, 1, 1, 1, 1)
    head = torch.arange(heads, device=value.device).view(1, 1, heads, 1, 1)
    return ((image * keys + key) * heads + head).flatten(start_dim=3)


def _attend(value: Tensor, attention_weights: Tensor, row: Tensor) -> Tensor:
    table = value.reshape(-1, value.shape[-1])
    return weighted_rows(table, row, attention_weights.flatten(start_dim=3)).flatten(start_dim=2)


def _require_limits(value: Tensor, attention_weights: Tensor) -> None:
    kernel = "geometric_kernel_attention backward"
    heads, channels = value.shape[2:]
    levels, points = attention_weights.shape[3:]
    terms = heads * levels * (-(-points // 8) * 8)
    limits.require(channels % 8 == 0, kernel, "a multiple of 8 channels", channels)
    limits.require(terms < 256, kernel, "heads * levels * points (in eights) below 256", terms)
    limits.require(terms * channels < 2**14, kernel, "as many terms times channels below 16384", terms * channels)
