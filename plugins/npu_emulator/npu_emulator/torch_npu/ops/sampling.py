"""Bilinear interpolation, which deformable convolution and RoI alignment share."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["bilinear"]


def bilinear(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Interpolate images, which are zero outside, at positions in pixels.

    A position a whole pixel or more outside is worth zero, and so are its gradients, as in the bilinear kernels of
    mmcv 2.1.0; at exactly -1 that matters.

    Args:
        images: shape (n, c, h, w).
        y: vertical positions, shape (n, p); 0 is the centre of the first row.
        x: horizontal positions, likewise.

    Returns:
        Shape (n, c, p), differentiable in all arguments.
    """
    height, width = images.shape[2:]
    pixels = images.flatten(2)
    top, left = y.detach().floor(), x.detach().floor()
    below, right = y - top, x - left
    near = (y > -1) & (y < height) & (x > -1) & (x < width)

    total = torch.zeros((), dtype=images.dtype, device=images.device)
    for row, row_weight in ((top, 1 - below), (top + 1, below)):
        for column, column_weight in ((left, 1 - right), (left + 1, right)):
            inside = near & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            # Whole numbers before multiplying: a 16-bit float cannot count the pixels of an image.
            index = torch.where(inside, row, 0).long() * width + torch.where(inside, column, 0).long()
            weight = torch.where(inside, row_weight * column_weight, 0)
            total = total + pixels.gather(2, index.unsqueeze(1).expand(-1, pixels.shape[1], -1)) * weight.unsqueeze(1)
    return total
