"""Cases for the patch ``mmcv.spconv3d``.

mmcv has no CPU kernel for sparse convolution. The reference is torch's dense convolution on the whole grid, kept only
where the sparse layer has outputs: at the inputs' places (submanifold and inverse), or wherever an input reaches.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

import patchcore as pc
from mmcv_npu.checks import drawing

__all__ = ["OnGrid", "inverse", "pointwise", "strided", "submanifold"]

Axes = tuple[int, ...]


class OnGrid(nn.Module):
    """Sparse layers of mmcv from features to the whole grid.

    Args:
        layers: one after the other, in an ``mmcv.ops.SparseSequential``.
        shape: size of the grid along its three axes.
        batch_size: number of images.
    """

    def __init__(self, layers: nn.Module, shape: Axes, batch_size: int) -> None:
        super().__init__()
        self.layers = layers
        self.shape = shape
        self.batch_size = batch_size

    def forward(self, features: Tensor, indices: Tensor) -> Tensor:
        """Return the outputs, zero where there are none, of shape (batch, channels, x, y, z).

        Args:
            features: shape (n, channels).
            indices: image and place of each, int32 of shape (n, 4).
        """
        from mmcv.ops import SparseConvTensor

        return self.layers(SparseConvTensor(features, indices, list(self.shape), self.batch_size)).dense()

    def densely(self, features: Tensor, indices: Tensor) -> Tensor:
        """Return the result of :meth:`forward`, by dense convolutions. Arguments: see there."""
        sites = (self.batch_size, self.shape, indices)
        grid = _on_grid(features, *sites)
        occupied = first = _on_grid(torch.ones_like(features[:, :1]), *sites)
        for layer in self.layers:
            if layer.inverse:
                before = self.layers[0]
                grid, occupied = _transposed(grid, layer.weight, before.stride, before.padding, self.shape), first
            elif layer.subm:
                half = [size // 2 for size in layer.kernel_size]
                grid = functional.conv3d(grid, _dense_weight(layer.weight), padding=half)
            else:
                window = {"stride": tuple(layer.stride), "padding": tuple(layer.padding)}
                grid = functional.conv3d(grid, _dense_weight(layer.weight), **window)
                ones = occupied.new_ones(1, 1, *layer.kernel_size)
                occupied = (functional.conv3d(occupied, ones, **window) > 0).type_as(grid)
            if layer.bias is not None:
                grid = grid + layer.bias.view(1, -1, 1, 1, 1)
            grid = grid * occupied
        return grid


def submanifold(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw two submanifold convolutions, the second of which finds the places that the first has left."""
    from mmcv.ops import SubMConv3d

    kernel = _draw(rng, (1, 3))
    inputs, hidden, outputs = (rng.randint(1, 20) for _ in range(3))
    bias = rng.random() < 0.5
    return _case(
        rng,
        size,
        [
            SubMConv3d(inputs, hidden, kernel, bias=bias, indice_key="same"),
            SubMConv3d(hidden, outputs, kernel, bias=bias, indice_key="same"),
        ],
    )


def strided(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a convolution whose outputs are wherever an input reaches."""
    from mmcv.ops import SparseConv3d

    inputs, outputs = rng.randint(1, 20), rng.randint(1, 20)
    return _case(rng, size, [SparseConv3d(inputs, outputs, **_window(rng), bias=rng.random() < 0.5)])


def inverse(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a convolution and its inverse, with channels in multiples of 8 as the kernel wants them."""
    from mmcv.ops import SparseConv3d, SparseInverseConv3d

    window = _window(rng)
    inputs, hidden, outputs = (8 * rng.randint(1, 3) for _ in range(3))
    bias = rng.random() < 0.5
    return _case(
        rng,
        size,
        [
            SparseConv3d(inputs, hidden, **window, bias=bias, indice_key="down"),
            SparseInverseConv3d(hidden, outputs, window["kernel_size"], "down", bias),
        ],
    )


def pointwise(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a convolution of one tap, which mmcv computes everywhere and without regard to the stride."""
    from mmcv.ops import SparseConv3d

    layer = SparseConv3d(rng.randint(1, 20), rng.randint(1, 20), 1, stride=rng.randint(1, 2), bias=rng.random() < 0.5)
    return _case(rng, size, [layer], dense=False)


def _case(rng: random.Random, size: pc.Size, layers: Sequence[nn.Module], dense: bool = True) -> pc.Case:
    from mmcv.ops import SparseSequential

    generator = drawing.generator(rng)
    shape = tuple(size.draw(rng, small=(4, 8), typical=(16, 32)) for _ in range(3))
    batch_size = rng.randint(1, 2)
    grid = (batch_size, *shape)
    count = size.draw(rng, small=(1, 60), typical=(500, 2000))
    places = torch.randperm(torch.Size(grid).numel(), generator=generator)[:count]
    indices = torch.stack(torch.unravel_index(places, grid), dim=1).int()
    features = torch.randn(len(indices), layers[0].in_channels, generator=generator)
    module = OnGrid(SparseSequential(*layers), shape, batch_size)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return pc.Case(module, [features.requires_grad_(), indices], reference=module.densely if dense else None)


def _window(rng: random.Random) -> dict[str, Axes]:
    """Draw a window that fits into the smallest grid, and not of one tap: with that, mmcv disregards the stride."""
    kernel = _draw(rng, (1, 2, 3))
    while kernel == (1, 1, 1):
        kernel = _draw(rng, (1, 2, 3))
    return {"kernel_size": kernel, "stride": _draw(rng, (1, 2, 3)), "padding": _draw(rng, (0, 1))}


def _draw(rng: random.Random, choices: Sequence[int]) -> Axes:
    return tuple(rng.choice(choices) for _ in range(3))


def _on_grid(features: Tensor, batch_size: int, shape: Axes, indices: Tensor) -> Tensor:
    grid = features.new_zeros(batch_size, *shape, features.shape[1])
    grid = grid.index_put(tuple(indices.long().unbind(1)), features).movedim(-1, 1)
    # A copy even where it is contiguous: with one channel its stride is 1, and oneDNN's conv3d (torch 2.13) then takes
    # the memory for another layout and gives wrong results.
    return grid.clone(memory_format=torch.contiguous_format)


def _dense_weight(weight: Tensor) -> Tensor:
    """(x, y, z, in channels, out channels) as torch has it: (out channels, in channels, x, y, z)."""
    return weight.permute(4, 3, 0, 1, 2)


def _transposed(grid: Tensor, weight: Tensor, stride: Axes, padding: Axes, shape: Axes) -> Tensor:
    axes = list(zip(grid.shape[2:], weight.shape, stride, padding, shape))
    missing = [size - ((small - 1) * step - 2 * pad + taps) for small, taps, step, pad, size in axes]
    weight = weight.permute(3, 4, 0, 1, 2)
    return functional.conv_transpose3d(
        grid, weight, stride=tuple(stride), padding=tuple(padding), output_padding=missing
    )
