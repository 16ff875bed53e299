"""Deformable aggregation (mx-driving 26.2, ``mx_driving/ops/npu_deformable_aggregation.py``).

Paper: Lin et al., "Sparse4D v2" (arXiv:2305.14018).
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
from npu_emulator.formulas.sampling import corners, weighted_rows
from npu_emulator.mx_driving._counting import calls


class AdsDeformableAggregation(Function):
    """Sums the features of cameras at the key points of anchors, weighted by groups of channels."""

    @staticmethod
    def forward(
        ctx: Any,
        mc_ms_feat: Tensor,
        spatial_shape: Tensor,
        scale_start_index: Tensor,
        sampling_location: Tensor,
        weights: Tensor,
    ) -> Tensor:
        """Sample, weigh and sum.

        Args:
            ctx: the autograd context.
            mc_ms_feat: the feature maps of all cameras and scales, flattened, shape (n, keys, c); on the device
                float32, and so are sampling_location and weights.
            spatial_shape: (height, width) of each map, integers of shape (cameras, scales, 2).
            scale_start_index: index of each map's first key, integers of shape (cameras, scales).
            sampling_location: shape (n, anchors, points, cameras, 2), (x, y) as fractions of width and height. Points
                that are not between 0 and 1 see nothing.
            weights: shape (n, anchors, points, cameras, scales, groups); group g weighs the g-th part of the channels.

        Returns:
            Shape (n, anchors, c).

        Raises:
            LimitError: the arguments are outside the limits of the device.
            ValueError: a tensor is empty, or the groups do not divide the channels.
        """
        if mc_ms_feat.numel() == 0 or weights.numel() == 0:
            raise ValueError(
                "mx_driving.deformable_aggregation: expected no empty tensor, found features of shape "
                f"{tuple(mc_ms_feat.shape)} and weights of shape {tuple(weights.shape)}"
            )
        channels, groups = mc_ms_feat.shape[2], weights.shape[5]
        if channels % groups:
            raise ValueError(
                f"mx_driving.deformable_aggregation: expected groups that divide {channels} channels, found {groups}"
            )
        _require_limits(channels, weights)
        calls["deformable_aggregation"] += 1
        ctx.aggregate = partial(_aggregate, spatial_shape=spatial_shape, scale_start_index=scale_start_index)
        ctx.save_for_backward(mc_ms_feat, sampling_location, weights)
        return ctx.aggregate(mc_ms_feat, sampling_location, weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return five gradients: of mc_ms_feat, ``None``, ``None``, of sampling_location, of weights."""
        calls["deformable_aggregation_backward"] += 1
        grad_feat, grad_location, grad_weights = gradients(ctx.aggregate, ctx.saved_tensors, grad_output)
        return grad_feat, None, None, grad_location, grad_weights


# Bound as in mx_driving: positional arguments only.
deformable_aggregation = AdsDeformableAggregation.apply
npu_deformable_aggregation = AdsDeformableAggregation.apply


def _aggregate(
    mc_ms_feat: Tensor,
    sampling_location: Tensor,
    weights: Tensor,
    spatial_shape: Tensor,
    scale_start_index: Tensor,
) -> Tensor:
    batch, keys, channels = mc_ms_feat.shape
    anchors, groups = weights.shape[1], weights.shape[5]
    height, width = spatial_shape.unbind(dim=-1)

    # Fractions of the map to pixels, of which number i has its centre at i: (n, anchors, points, cameras, scales, 4).
    x, y = sampling_location.unsqueeze(-2).unbind(dim=-1)
    index, corner_weight = corners(y * height - 0.5, x * width - 0.5, height, width)
    seen = ((x > 0) & (x < 1) & (y > 0) & (y < 1)).unsqueeze(-1)
    corner_weight = torch.where(seen, corner_weight, 0)

    # One table row per image, key and group; per anchor and group, one weighted sum over all else.
    table = mc_ms_feat.reshape(-1, channels // groups)
    image = torch.arange(batch, device=mc_ms_feat.device).view(batch, 1, 1, 1, 1, 1)
    group = torch.arange(groups, device=mc_ms_feat.device).view(1, 1, groups, 1, 1, 1, 1)
    key = image * keys + scale_start_index.unsqueeze(-1) + index
    row = key.unsqueeze(2) * groups + group
    row_weight = corner_weight.unsqueeze(2) * weights.movedim(-1, 2).unsqueeze(-1)
    return weighted_rows(table, row.flatten(start_dim=3), row_weight.flatten(start_dim=3)).reshape(batch, anchors, -1)


def _require_limits(channels: int, weights: Tensor) -> None:
    kernel = "deformable_aggregation"
    batch, anchors, points, cameras, scales, groups = weights.shape
    limits.require(channels <= 256, kernel, "at most 256 channels", channels)
    limits.require(groups % 8 == 0, kernel, "a multiple of 8 groups", groups)
    limits.require(batch <= 128, kernel, "at most 128 images", batch)
    limits.require(cameras <= 6 and scales <= 4, kernel, "at most 6 cameras and 4 scales", (cameras, scales))
    fits = anchors <= 2048 and points <= 2048
    limits.require(fits, kernel, "at most 2048 anchors and 2048 points", (anchors, points))
