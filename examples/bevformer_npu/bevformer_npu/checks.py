"""Inputs on which the patched model and the model as it is must agree, for ``patchcore verify``."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc


def deformable_function(draw: random.Random) -> pc.Case:
    """Return a call of the model's Function with shapes that the kernel takes; mmcv's operator has no CPU kernel."""
    import torch
    from bevformer.deformable import IM2COL_STEP, DeformableAttentionFunction, deformable_attention

    generator = torch.Generator().manual_seed(draw.getrandbits(32))
    batch, queries, heads, points = draw.randint(1, 3), draw.randint(1, 40), draw.choice([1, 4, 8]), draw.randint(1, 4)
    shapes, start = _levels(draw)
    keys = int(shapes.prod(1).sum())
    value = torch.randn(batch, keys, heads, 8 * draw.randint(1, 4), generator=generator, requires_grad=True)
    places = (batch, queries, heads, len(shapes), points)
    locations = torch.rand(*places, 2, generator=generator).requires_grad_()
    weights = torch.rand(places, generator=generator).requires_grad_()
    return pc.Case(
        DeformableAttentionFunction.apply,
        (value, shapes, start, locations, weights, IM2COL_STEP),
        # on the CPU the model takes mmcv's definition in PyTorch
        reference=lambda *arguments: deformable_attention(*arguments[:-1]),
    )


def spatial_cross_attention(draw: random.Random) -> pc.Case:
    """Return a call of a ``SpatialCrossAttention`` whose cameras see a random part of the queries each."""
    return _cross_attention(draw, seen=draw.uniform(0.05, 0.6))


def nothing_visible(draw: random.Random) -> pc.Case:
    """Return a call of a ``SpatialCrossAttention`` whose cameras see nothing."""
    return _cross_attention(draw, seen=0.0)


def _cross_attention(draw: random.Random, seen: float) -> pc.Case:
    import torch
    from bevformer.attention import SpatialCrossAttention

    generator = torch.Generator().manual_seed(draw.getrandbits(32))
    batch, cameras, queries, heights = draw.randint(1, 3), draw.randint(1, 6), draw.randint(1, 50), draw.randint(1, 3)
    heads, channels = draw.choice([(2, 16), (4, 64), (8, 64)])
    shapes, start = _levels(draw)
    module = SpatialCrossAttention(channels, heads, len(shapes), heights * draw.randint(1, 2))
    for parameter in module.parameters():
        parameter.data.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    query = torch.randn(batch, queries, channels, generator=generator, requires_grad=True)
    features = torch.randn(batch, cameras, int(shapes.prod(1).sum()), channels, generator=generator, requires_grad=True)
    references = torch.rand(batch, cameras, queries, heights, 2, generator=generator)
    visible = torch.rand(batch, cameras, queries, heights, generator=generator) < seen
    return pc.Case(module, (query, features, references, visible, shapes, start))


def _levels(draw: random.Random) -> tuple[Any, Any]:
    """Return the shapes of one to three feature maps, and where each begins."""
    import torch

    shapes = torch.tensor([[draw.randint(2, 9), draw.randint(2, 9)] for _ in range(draw.randint(1, 3))])
    sizes = shapes.prod(1)
    return shapes, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)[:-1]])
