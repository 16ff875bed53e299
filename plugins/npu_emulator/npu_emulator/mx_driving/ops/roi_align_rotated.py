"""Features of rotated regions (mx-driving 26.2, ``mx_driving/ops/roi_align_rotated.py``).

Papers: He et al., "Mask R-CNN" (arXiv:1703.06870); Ding et al., "RoI Transformer" (arXiv:1812.00155). The places of the
samples are those of mmcv 2.1.0.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator.formulas.differentiation import gradients
from npu_emulator.formulas.sampling import mean_of_bins
from npu_emulator.mx_driving._counting import calls


class Pooling(NamedTuple):
    """How regions are pooled; see :class:`RoIAlignRotatedFunction`."""

    spatial_scale: float
    sampling_ratio: int
    pooled_height: int
    pooled_width: int
    aligned: bool
    clockwise: bool


class RoIAlignRotatedFunction(Function):
    """Means of bilinear samples in the bins of rotated regions."""

    @staticmethod
    def forward(
        ctx: Any,
        feature_map: Tensor,
        rois: Tensor,
        spatial_scale: float,
        sampling_ratio: int,
        pooled_height: int,
        pooled_width: int,
        aligned: bool = True,
        clockwise: bool = False,
    ) -> Tensor:
        """Pool. The arguments are in another order than those of mmcv's Function.

        Args:
            ctx: the autograd context.
            feature_map: shape (b, c, h, w); on the device float32.
            rois: (image, x, y, width, height, angle in radians) of each region, x and y of its centre, shape (n, 6).
            spatial_scale: of the feature map, relative to the regions.
            sampling_ratio: samples per bin along each axis; 0 for as many as the bin has pixels.
            pooled_height: number of bins.
            pooled_width: likewise.
            aligned: whether pixel number i has its centre at i + 0.5; without, regions are at least one pixel large.
            clockwise: whether regions are rotated clockwise, seen with y downwards.

        Returns:
            Shape (n, c, pooled_height, pooled_width), differentiable in feature_map alone.

        Raises:
            ValueError: there is no bin, or a tensor has another shape than described.
        """
        if feature_map.dim() != 4 or rois.dim() != 2 or rois.shape[1] != 6 or pooled_height < 1 or pooled_width < 1:
            raise ValueError(
                "mx_driving.roi_align_rotated: expected features of shape (b, c, h, w), regions of shape (n, 6) and "
                f"bins, found {tuple(feature_map.shape)}, {tuple(rois.shape)} and {pooled_height} x {pooled_width}"
            )
        calls["roi_align_rotated"] += 1
        pooling = Pooling(spatial_scale, sampling_ratio, pooled_height, pooled_width, aligned, clockwise)
        ctx.align = partial(_align, rois=rois, pooling=pooling)
        ctx.save_for_backward(feature_map)
        return ctx.align(feature_map)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of feature_map, and ``None`` for the seven other arguments."""
        calls["roi_align_rotated_backward"] += 1
        (grad,) = gradients(ctx.align, ctx.saved_tensors, grad_output)
        return grad, None, None, None, None, None, None, None


# Bound as in mx_driving: positional arguments only.
roi_align_rotated = RoIAlignRotatedFunction.apply


def _align(feature_map: Tensor, rois: Tensor, pooling: Pooling) -> Tensor:
    bins = (mean_of_bins(feature_map[int(region[0])], *_samples(region, pooling)) for region in rois)
    none = feature_map.new_zeros(0, pooling.pooled_height, pooling.pooled_width, feature_map.shape[1])
    return torch.cat([none, *(each.unsqueeze(0) for each in bins)]).permute(0, 3, 1, 2).contiguous()


def _samples(region: Tensor, pooling: Pooling) -> tuple[Tensor, Tensor]:
    """Return y and x of the samples of a region in pixels, each of shape (rows, columns, samples of a bin)."""
    offset = 0.5 if pooling.aligned else 0.0
    center_x, center_y, size_x, size_y = region[1:5] * pooling.spatial_scale
    if not pooling.aligned:
        size_x, size_y = size_x.clamp(min=1), size_y.clamp(min=1)
    angle = -region[5] if pooling.clockwise else region[5]

    along_y = _along(size_y, pooling.pooled_height, pooling.sampling_ratio)
    along_x = _along(size_x, pooling.pooled_width, pooling.sampling_ratio)
    along_y, along_x = torch.broadcast_tensors(along_y[:, None, :, None], along_x[None, :, None, :])
    y = along_y * angle.cos() - along_x * angle.sin() + center_y - offset
    x = along_y * angle.sin() + along_x * angle.cos() + center_x - offset
    return y.flatten(start_dim=2), x.flatten(start_dim=2)


def _along(size: Tensor, bins: int, sampling_ratio: int) -> Tensor:
    """Return places of samples along one axis, from the centre of the region, shape (bins, samples of a bin)."""
    samples = sampling_ratio if sampling_ratio > 0 else math.ceil(float(size / bins))
    numbers = torch.arange(bins * samples, device=size.device, dtype=size.dtype).view(bins, samples)
    return (numbers + 0.5) * size / (bins * samples) - size / 2 if samples else numbers
