"""Bilinear sampling, the part that deformable kernels and those that pool regions share."""

from __future__ import annotations

from typing import Union

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

__all__ = ["bilinear", "corners", "mean_of_bins", "weighted_rows"]


def corners(y: Tensor, x: Tensor, height: Union[int, Tensor], width: Union[int, Tensor]) -> tuple[Tensor, Tensor]:
    """Find the four pixels around each position, and the weight of each.

    The image is zero outside. A position that is a whole pixel or more outside (``y <= -1``, ``y >= height``, same for
    ``x``) has weights and gradients of zero, as in the bilinear kernels of mmcv (``deform_conv2d`` and
    ``modulated_deform_conv2d`` on CPU and CUDA, mmcv 2.1.0). It matters for the gradient at exactly -1, where every
    border position starts when offsets are initialised with zeros and padding is 1.

    Args:
        y: vertical positions in pixels, any shape; 0 is the centre of the first row.
        x: horizontal positions in pixels, same shape.
        height: rows of the image, or a tensor of them that broadcasts to the positions.
        width: columns of the image, likewise.

    Returns:
        Index ``row * width + column`` of each pixel (int64; 0 where the weight is zero because it lies outside) and
        its weight, both of the positions' shape with 4 appended. Weights are differentiable in ``y`` and ``x``.
    """
    top, left = y.detach().floor(), x.detach().floor()
    below, right = y - top, x - left
    inside = (y > -1) & (x > -1)  # beyond the far edges both rows, or both columns, are outside anyway

    rows, columns, weights, valid = [], [], [], []
    for row, row_weight in ((top, 1 - below), (top + 1, below)):
        for column, column_weight in ((left, 1 - right), (left + 1, right)):
            rows.append(row)
            columns.append(column)
            weights.append(row_weight * column_weight)
            valid.append(inside & (row >= 0) & (row < height) & (column >= 0) & (column < width))

    is_valid = torch.stack(valid, dim=-1)
    row_index = torch.where(is_valid, torch.stack(rows, dim=-1), 0).long()
    column_index = torch.where(is_valid, torch.stack(columns, dim=-1), 0).long()
    pixel_width = width.unsqueeze(-1) if isinstance(width, Tensor) else width
    return row_index * pixel_width + column_index, torch.where(is_valid, torch.stack(weights, dim=-1), 0)


def weighted_rows(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Sum rows of a table, each times a weight: ``(weight[..., None] * table[index]).sum(-2)`` without the gather.

    Args:
        table: shape (rows, channels).
        index: int64, shape (..., terms).
        weight: shape (..., terms), the table's dtype.

    Returns:
        Shape (..., channels), differentiable in ``table`` and ``weight``.
    """
    terms = index.shape[-1]
    rows = embedding_bag(index.reshape(-1, terms), table, per_sample_weights=weight.reshape(-1, terms), mode="sum")
    return rows.reshape(*index.shape[:-1], table.shape[-1])


def bilinear(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Interpolate images, which are zero outside as for :func:`corners`.

    Args:
        images: shape (n, c, h, w).
        y: vertical positions in pixels, shape (n, p); 0 is the centre of the first row.
        x: horizontal positions, likewise.

    Returns:
        Shape (n, c, p), differentiable in all arguments.
    """
    index, weight = corners(y, x, *images.shape[2:])
    at = index.flatten(1).unsqueeze(1).expand(-1, images.shape[1], -1)
    return (images.flatten(2).gather(2, at).unflatten(2, index.shape[1:]) * weight.unsqueeze(1)).sum(dim=-1)


def mean_of_bins(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Return the means of bilinear samples, of which those within a pixel of the border are moved onto it.

    Samples farther outside are zero (``roi_align_rotated`` and ``deform_roi_pool`` of mmcv 2.1.0).

    Args:
        image: shape (c, h, w).
        y: vertical positions in pixels, shape (rows, columns, samples of a bin).
        x: horizontal positions, likewise.

    Returns:
        Shape (rows, columns, c), zero where bins have no samples; differentiable in all arguments.
    """
    channels, height, width = image.shape
    if y.shape[-1] == 0:
        return image.new_zeros(*y.shape[:2], channels)
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.detach().floor(), x.detach().floor()
    below, right = y - top, x - left
    index, weight = [], []
    for row, row_weight in ((top, 1 - below), (top + 1, below)):
        for column, column_weight in ((left, 1 - right), (left + 1, right)):
            index.append(row.clamp(max=height - 1) * width + column.clamp(max=width - 1))
            weight.append(torch.where(inside, row_weight * column_weight, 0))
    rows, weights = torch.cat(index, dim=-1).long(), torch.cat(weight, dim=-1)
    return weighted_rows(image.flatten(1).T, rows, weights) / y.shape[-1]
