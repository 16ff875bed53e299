"""What mmcv's sparse convolutions compute, by torch's dense ones: the reference, since mmcv has no CPU kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def on_grid(features: Tensor, indices: Tensor, shape: Any, batch_size: int) -> Tensor:
    """Return features (n, channels) on the whole grid, (batch, channels, x, y, z), zero where there are none."""
    grid = features.new_zeros(batch_size, *shape, features.shape[1])
    grid = grid.index_put(tuple(indices.long().unbind(1)), features).permute(0, 4, 1, 2, 3)
    # a copy, because oneDNN's conv3d (torch 2.13) gives wrong results for the strides that one channel has here
    return grid.clone(memory_format=torch.contiguous_format)


def forward(self: Any, input: Any) -> Any:
    """Stand in for ``mmcv.ops.sparse_conv.SparseConvolution.forward``.

    The rows of a strided convolution come in ascending order of their places.
    """
    indices, shape = input.indices, list(input.spatial_shape)
    grid = on_grid(input.features, indices, shape, input.batch_size)
    weight = self.weight.permute(4, 3, 0, 1, 2)
    if self.inverse:
        indices, before, window = input.indice_dict[self.indice_key]
        reach = zip(shape, self.kernel_size, *window.values(), before)
        rest = [size - ((small - 1) * step - 2 * pad + taps) for small, taps, step, pad, size in reach]
        grid = functional.conv_transpose3d(grid, weight.transpose(0, 1), output_padding=rest, **window)
        shape = before
    elif self.subm:
        grid = functional.conv3d(grid, weight, padding=[size // 2 for size in self.kernel_size])
    else:
        window = {"stride": tuple(self.stride), "padding": tuple(self.padding)}
        grid = functional.conv3d(grid, weight, **window)
        occupied = on_grid(torch.ones(len(indices), 1), indices, shape, input.batch_size)
        reached = functional.conv3d(occupied, torch.ones(1, 1, *self.kernel_size), **window)[:, 0] > 0
        input.indice_dict[self.indice_key] = (indices, shape, window)
        indices, shape = reached.nonzero().int(), list(grid.shape[2:])
    features = grid.permute(0, 2, 3, 4, 1)[tuple(indices.long().unbind(1))]
    if self.bias is not None:
        features = features + self.bias
    output = type(input)(features, indices, shape, input.batch_size)
    output.indice_dict = input.indice_dict
    return output
