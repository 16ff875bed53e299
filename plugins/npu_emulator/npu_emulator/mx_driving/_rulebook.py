"""Rulebooks of sparse convolutions: the pairs of input and output of each tap.

A rulebook lists them once; convolving is then one matrix product per tap. Papers: Graham and van der Maaten,
"Submanifold Sparse Convolutional Networks" (arXiv:1706.01307); Yan et al., "SECOND" (Sensors 18(10), 2018).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple, SupportsIndex

import torch
from torch import Tensor

#: A number for each axis.
Sizes = tuple[int, ...]


class Window(NamedTuple):
    """The window of a three-dimensional convolution, in voxels along the three axes of the indices."""

    kernel_size: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes


class Rulebook(NamedTuple):
    """Pairs of an input and an output that it contributes to.

    Args:
        source: row of the input, int64, shape (pairs,).
        tap: which of the kernel's taps, in row-major order, connects them; same shape.
        target: row of the output; same shape.
        sources: how many inputs there are.
        targets: how many outputs there are.
    """

    source: Tensor
    tap: Tensor
    target: Tensor
    sources: int
    targets: int

    def inverted(self) -> Rulebook:
        """Return the rulebook of the transposed convolution."""
        return Rulebook(self.target, self.tap, self.source, self.targets, self.sources)


def output_shape(spatial_shape: Sequence[int], window: Window) -> list[int]:
    """Return the size of a convolution's output along each axis, as of a dense convolution."""
    sizes = []
    for size, kernel, stride, padding, dilation in zip(spatial_shape, *window):
        sizes.append((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1)
    return sizes


def strided(
    indices: Tensor, out_shape: Sequence[int], batch_size: SupportsIndex, window: Window
) -> tuple[Rulebook, Tensor]:
    """Connect every input with every output whose window it lies in.

    Args:
        indices: (image, and position along three axes) of each input, integers of shape (n, 4).
        out_shape: size of the output along the three axes, by :func:`output_shape`.
        batch_size: number of images; mmdet3d 1.4 takes it from the last index, as a tensor.
        window: of the convolution.

    Returns:
        The rulebook, and the indices of the outputs in ascending order, of the dtype of the given ones.
    """
    source, tap, cell = _contributions(indices, out_shape, window)
    cells, target = cell.unique(return_inverse=True)
    out_indices = torch.stack(torch.unravel_index(cells, (operator.index(batch_size), *out_shape)), dim=1)
    return Rulebook(source, tap, target, len(indices), len(cells)), out_indices.to(indices.dtype)


def submanifold(indices: Tensor, spatial_shape: Sequence[int], window: Window) -> Rulebook:
    """Connect inputs with outputs where the outputs are at the places of the inputs, and nowhere else.

    Args:
        indices: as for :func:`strided`; no place occurs twice.
        spatial_shape: size along the three axes.
        window: with stride 1, and padding that keeps the size.
    """
    source, tap, cell = _contributions(indices, spatial_shape, window)
    places, order = _flat(indices.long().unbind(dim=1), spatial_shape).sort()
    position = torch.searchsorted(places, cell).clamp(max=max(len(places) - 1, 0))
    occupied = places[position] == cell
    return Rulebook(source[occupied], tap[occupied], order[position[occupied]], len(indices), len(indices))


def convolve(features: Tensor, weight: Tensor, rulebook: Rulebook) -> Tensor:
    """Multiply the inputs with the weight of each tap and add them up in the outputs.

    Args:
        features: shape (sources, c_in).
        weight: shape (taps, c_in, c_out).
        rulebook: which goes where.

    Returns:
        Shape (targets, c_out), differentiable in features and weight.
    """
    output = features.new_zeros(rulebook.targets, weight.shape[-1])
    for tap, tap_weight in enumerate(weight):
        pairs = rulebook.tap == tap
        output.index_add_(0, rulebook.target[pairs], features[rulebook.source[pairs]] @ tap_weight)
    return output


def _contributions(indices: Tensor, out_shape: Sequence[int], window: Window) -> tuple[Tensor, Tensor, Tensor]:
    """Find all (input, tap) with an output, and number the output's place: three tensors of shape (pairs,)."""
    taps = math.prod(window.kernel_size)
    tap_index = torch.arange(taps, device=indices.device)
    tap_position = torch.stack(torch.unravel_index(tap_index, window.kernel_size), dim=1)
    stride, padding, dilation, size = (
        torch.tensor(values, device=indices.device)
        for values in (window.stride, window.padding, window.dilation, out_shape)
    )

    # Output o reads input o * stride - padding + tap * dilation, here solved for o: shape (n, taps, 3).
    shifted = indices[:, 1:].long().unsqueeze(1) + padding - tap_position * dilation
    position = shifted.div(stride, rounding_mode="floor")
    reached = ((shifted % stride == 0) & (position >= 0) & (position < size)).all(dim=-1)

    source, tap = reached.nonzero(as_tuple=True)
    image = indices[:, 0].long()[source]
    return source, tap, _flat((image, *position[source, tap].unbind(dim=1)), out_shape)


def _flat(coordinates: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Number places in row-major order, image first."""
    image, x, y, z = coordinates
    return ((image * shape[0] + x) * shape[1] + y) * shape[2] + z
