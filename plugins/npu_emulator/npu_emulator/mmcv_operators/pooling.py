"""Pooling of regions, as mmcv 2.1.0 defines it.

Source: ``mmcv/ops/csrc/common/cuda``, ``roi_pool_cuda_kernel.cuh`` and ``deform_roi_pool_cuda_kernel.cuh``.

The operators go region by region: regions have different numbers of pixels, or of samples.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npu_emulator.formulas.differentiation import gradients
from npu_emulator.formulas.sampling import mean_of_bins

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
    settings = ((pooled_height, pooled_width), spatial_scale, sampling_ratio, gamma)
    output.copy_(_deformed(input, offset, rois, *settings))


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
    settings = ((pooled_height, pooled_width), spatial_scale, sampling_ratio, gamma)

    def pooled(input: Tensor, offset: Tensor = offset) -> Tensor:
        return _deformed(input, offset, rois, *settings)

    inputs = (input, offset) if offset.numel() else (input,)
    for place, gradient in zip((grad_input, grad_offset), gradients(pooled, inputs, grad_output)):
        place += gradient


def _deformed(
    input: Tensor,
    offset: Tensor,
    rois: Tensor,
    bins: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> Tensor:
    """Return the output of :func:`deform_roi_pool_forward`, differentiable in input and offset."""
    pooled = [input.new_zeros(0, *bins, input.shape[1])]
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
        y, x = (places.expand(*bins, down, across).flatten(2) for places in (y, x))
        pooled.append(mean_of_bins(input[int(roi[0])], y, x).unsqueeze(0))
    return torch.cat(pooled).permute(0, 3, 1, 2)


def _places(bins: int, samples: int, size: Tensor) -> Tensor:
    """Return the distances of samples from the start of a region, (bins, samples)."""
    within = (torch.arange(samples).to(size) + 0.5) * size / max(samples, 1)
    return torch.arange(bins).to(size).unsqueeze(1) * size + within
