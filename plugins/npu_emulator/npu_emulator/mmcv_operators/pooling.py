"""Pooling of regions, as mmcv 2.1.0 defines it.

Source: ``mmcv/ops/csrc/common/cuda``, ``roi_pool_cuda_kernel.cuh`` and ``deform_roi_pool_cuda_kernel.cuh``.

The operators go region by region: regions have different numbers of pixels, or of samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "deform_roi_pool_backward",
    "deform_roi_pool_forward",
    "roi_pool_backward",
    "roi_pool_forward",
]


def roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Write the largest value of each bin to ``output``, and where it is to ``argmax``.

    Args:
        input: (batch, channels, height, width).
        rois: (regions, 5), image, x1, y1, x2, y2.
        output, argmax: (regions, channels, pooled height, pooled width); argmax counts the pixels of a channel, and is
            -1 for an empty bin.
        pooled_height, pooled_width: bins of a region.
        spatial_scale: from the coordinates of regions to pixels.
    """
    height, width = input.shape[2:]
    starts, ends = rois[:, 1:3] * spatial_scale, (rois[:, 3:5] + 1) * spatial_scale
    x1, x2 = _bins(starts[:, 0], ends[:, 0], pooled_width, width)
    y1, y2 = _bins(starts[:, 1], ends[:, 1], pooled_height, height)
    for number in ((ends - starts) > 0).all(dim=1).nonzero().flatten().tolist():
        image = input[int(rois[number, 0])]
        for row, (top, bottom) in enumerate(zip(y1[number].tolist(), y2[number].tolist())):
            for column, (left, right) in enumerate(zip(x1[number].tolist(), x2[number].tolist())):
                if top >= bottom or left >= right:
                    output[number, :, row, column] = 0
                    argmax[number, :, row, column] = -1
                    continue
                largest, index = image[:, top:bottom, left:right].flatten(1).max(dim=1)
                across = right - left
                output[number, :, row, column] = largest
                argmax[number, :, row, column] = ((index // across + top) * width + index % across + left).to(argmax)


def roi_pool_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Add the gradient of each bin to the pixel of ``grad_input`` that it was taken from; see the forward pass."""
    flat = grad_input.view(*grad_input.shape[:2], -1)
    for number, image in enumerate(rois[:, 0].long().tolist()):
        index, gradient = argmax[number].flatten(1).long(), grad_output[number].flatten(1)
        flat[image].scatter_add_(1, index.clamp(min=0), torch.where(index >= 0, gradient, torch.zeros_like(gradient)))


def _bins(start: Tensor, end: Tensor, count: int, extent: int) -> tuple[Tensor, Tensor]:
    """Return the first pixel of each bin and the first one behind it, (regions, bins) each."""
    size = ((end - start) / count).unsqueeze(1)
    number = torch.arange(count).to(size)
    first = torch.floor(number * size + start.unsqueeze(1))
    behind = torch.ceil((number + 1) * size + start.unsqueeze(1))
    return first.clamp(0, extent).long(), behind.clamp(0, extent).long()


class _Samples(NamedTuple):
    """Where one region is sampled, (pooled height, pooled width, samples down, samples across) each.

    Args:
        number: of the region.
        image: its index in the batch.
        y, x: in pixels.
        extents: width and height of the region in pixels, which offsets are shares of.
    """

    number: int
    image: int
    y: Tensor
    x: Tensor
    extents: tuple[Tensor, Tensor]

    @property
    def per_bin(self) -> int:
        """How many samples a bin has."""
        return self.y.shape[2] * self.y.shape[3]


class _Corners(NamedTuple):
    """The four pixels around samples, and the shares of the lower one in y and x."""

    y_low: Tensor
    y_high: Tensor
    x_low: Tensor
    x_high: Tensor
    weights: tuple[Tensor, ...]


def deform_roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Write the mean of the samples of each bin to ``output``; bins are moved by ``offset``.

    Args:
        input: (batch, channels, height, width).
        rois: (regions, 5), image, x1, y1, x2, y2.
        offset: (regions, 2, pooled height, pooled width), in x and in y, or empty.
        output: (regions, channels, pooled height, pooled width).
        pooled_height, pooled_width: bins of a region.
        spatial_scale: from the coordinates of regions to pixels.
        sampling_ratio: samples of a bin in each direction; 0 for as many as it has pixels.
        gamma: factor of the offset.
    """
    for samples in _sampled(rois, offset, (pooled_height, pooled_width), spatial_scale, sampling_ratio, gamma):
        corners = _corners(samples, *input.shape[2:])
        pixels = _pixels(input[samples.image], corners)
        total = sum(weight * pixel for weight, pixel in zip(corners.weights, pixels))
        assert isinstance(total, Tensor)
        output[samples.number] = total.sum(dim=(-2, -1)) / max(samples.per_bin, 1)


def deform_roi_pool_backward(
    grad_output: Tensor,
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Add to the gradients of the input and of the offset; see the forward pass."""
    height, width = input.shape[2:]
    flat = grad_input.view(*grad_input.shape[:2], -1)
    for samples in _sampled(rois, offset, (pooled_height, pooled_width), spatial_scale, sampling_ratio, gamma):
        if samples.per_bin == 0:
            continue
        corners = _corners(samples, height, width)
        gradient = (grad_output[samples.number] / samples.per_bin)[..., None, None]
        rows = (corners.y_low, corners.y_low, corners.y_high, corners.y_high)
        columns = (corners.x_low, corners.x_high, corners.x_low, corners.x_high)
        for row, column, weight in zip(rows, columns, corners.weights):
            flat[samples.image].index_add_(1, (row * width + column).flatten(), (gradient * weight).flatten(1))
        if not offset.numel():
            continue
        low_low, low_high, high_low, high_high = _pixels(input[samples.image], corners)
        inside = sum(corners.weights) > 0
        y, x = samples.y, samples.x
        by_x = (high_high - high_low) * (y - corners.y_low) + (low_high - low_low) * (corners.y_high - y)
        by_y = (high_high - low_high) * (x - corners.x_low) + (high_low - low_low) * (corners.x_high - x)
        for axis, slope in enumerate((by_x, by_y)):
            share = gamma * samples.extents[axis] * gradient * slope * inside
            grad_offset[samples.number, axis] += share.sum(dim=(0, -2, -1))


def _sampled(
    rois: Tensor, offset: Tensor, bins: tuple[int, int], spatial_scale: float, sampling_ratio: int, gamma: float
) -> Iterator[_Samples]:
    for number, roi in enumerate(rois):
        left, top, right, bottom = (roi[1:] * spatial_scale - 0.5).unbind()
        width, height = right - left, bottom - top
        down, across = (
            sampling_ratio if sampling_ratio > 0 else max(int(torch.ceil(extent / count)), 0)
            for extent, count in zip((height, width), bins)
        )
        y = top + _places(bins[0], down, height / bins[0])[:, None, :, None]
        x = left + _places(bins[1], across, width / bins[1])[None, :, None, :]
        if offset.numel():
            y = y + gamma * height * offset[number, 1][..., None, None]
            x = x + gamma * width * offset[number, 0][..., None, None]
        shape = (*bins, down, across)
        yield _Samples(number, int(roi[0]), y.expand(shape), x.expand(shape), (width, height))


def _places(bins: int, samples: int, size: Tensor) -> Tensor:
    """Return the distances of samples from the start of a region, (bins, samples)."""
    within = (torch.arange(samples).to(size) + 0.5) * size / max(samples, 1)
    return torch.arange(bins).to(size).unsqueeze(1) * size + within


def _corners(samples: _Samples, height: int, width: int) -> _Corners:
    inside = (samples.y >= -1) & (samples.y <= height) & (samples.x >= -1) & (samples.x <= width)
    y, x = samples.y.clamp(0, height - 1), samples.x.clamp(0, width - 1)
    y_low, x_low = y.floor().long(), x.floor().long()
    y_high, x_high = (y_low + 1).clamp(max=height - 1), (x_low + 1).clamp(max=width - 1)
    ly, lx = y - y_low, x - x_low
    weights = ((1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx)
    return _Corners(y_low, y_high, x_low, x_high, tuple(weight * inside for weight in weights))


def _pixels(image: Tensor, corners: _Corners) -> tuple[Tensor, ...]:
    return (
        image[:, corners.y_low, corners.x_low],
        image[:, corners.y_low, corners.x_high],
        image[:, corners.y_high, corners.x_low],
        image[:, corners.y_high, corners.x_high],
    )
