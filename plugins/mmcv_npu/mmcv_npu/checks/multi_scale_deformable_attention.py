"""Random calls of multi-scale deformable attention.

mmcv has no operator for the CPU. The reference is its plain PyTorch function, which its layer takes there.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import patchcore as pc
from mmcv_npu.checks import drawing


class Attention(NamedTuple):
    """The arguments of one attention.

    Args:
        value: (batch, keys, heads, channels).
        shapes: (levels, 2), height and width of each level.
        starts: (levels,), index of the first key of each level.
        locations: (batch, queries, heads, levels, points, 2), x and y as shares of width and height.
        weights: (batch, queries, heads, levels, points).
    """

    value: Any
    shapes: Any
    starts: Any
    locations: Any
    weights: Any


def called(rng: random.Random, size: pc.Size = pc.Size.SMALL, dtype: str = "float32") -> pc.Case:
    """Draw a call of mmcv's Function.

    In 16 bits it is one that mixed precision makes: the value has them, locations and weights have them or 32.
    """
    import torch
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction

    drawn, wanted = _draw(rng, size), getattr(torch, dtype)
    autocast = drawing.autocast(rng, wanted)
    locations, weights = drawing.mixed(rng, wanted, drawn.locations, drawn.weights)
    drawn = drawn._replace(value=drawn.value.to(wanted), locations=locations, weights=weights)

    def call(value: Any, *rest: Any) -> Any:
        with autocast(value):
            return MultiScaleDeformableAttnFunction.apply(value, *rest, 64)

    for tensor in (drawn.value, drawn.locations, drawn.weights):
        tensor.requires_grad_()
    return pc.Case(call, drawn, reference=_reference)


def copied(rng: random.Random, size: pc.Size = pc.Size.SMALL, dtype: str = "float32") -> pc.Case:
    """Draw a call of a Function that a model brings with it, as BEVFormer does; of any number of heads and channels."""
    import torch

    drawn, wanted = _draw(rng, size, heads=rng.choice((8, 12)), step=rng.choice((8, 6))), getattr(torch, dtype)
    floats = (tensor.to(wanted).requires_grad_() for tensor in (drawn.value, drawn.locations, drawn.weights))
    drawn = drawn._replace(**dict(zip(("value", "locations", "weights"), floats)))
    return pc.Case(lambda *tensors: copied_function().apply(*tensors, 64), drawn, reference=_reference)


def copied_function() -> Any:
    """Return a Function with mmcv's operators, as in ``multi_scale_deformable_attn_function.py`` of BEVFormer."""
    import torch
    from mmcv.utils import ext_loader

    ext_module = ext_loader.load_ext("_ext", ["ms_deform_attn_backward", "ms_deform_attn_forward"])

    class Copied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            *tensors, ctx.im2col_step = arguments
            ctx.save_for_backward(*tensors)
            return ext_module.ms_deform_attn_forward(*tensors, im2col_step=ctx.im2col_step)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            value, _, _, locations, weights = ctx.saved_tensors
            gradients = [torch.zeros_like(tensor) for tensor in (value, locations, weights)]
            ext_module.ms_deform_attn_backward(
                *ctx.saved_tensors, grad_output.contiguous(), *gradients, im2col_step=ctx.im2col_step
            )
            return gradients[0], None, None, *gradients[1:], None

    return Copied


def _reference(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch

    out = multi_scale_deformable_attn_pytorch(value.float(), shapes, locations.float(), weights.float())
    return out.type_as(value)


def _draw(rng: random.Random, size: pc.Size, *, heads: int = 8, step: int = 8) -> Attention:
    """Draw an attention with up to ``heads`` heads, and channels in multiples of ``step``."""
    import torch

    batch, heads, levels, points = (rng.randint(1, most) for most in (2, heads, 4, 4))
    queries = size.draw(rng, small=(1, 5), typical=(300, 900))
    sizes = [tuple(size.draw(rng, small=(1, 6), typical=(12, 50)) for _ in "hw") for _ in range(levels)]
    areas = [height * width for height, width in sizes]
    shape = (batch, queries, heads, levels, points)
    # pixel number i has its centre at i + 0.5; some lie outside the map
    pixels = torch.stack(
        [_pixels(rng, (width, height), (batch, queries, heads, points)) for height, width in sizes], dim=3
    )
    extents = torch.tensor([(width, height) for height, width in sizes]).view(1, 1, 1, levels, 1, 2)
    weights = drawing.normal(rng, batch, queries, heads, levels * points).softmax(-1)
    return Attention(
        drawing.normal(rng, batch, sum(areas), heads, step * rng.randint(1, 4)),
        torch.tensor(sizes),
        torch.tensor([sum(areas[:level]) for level in range(levels)]),
        pixels / extents,
        weights.view(shape),
    )


def _pixels(rng: random.Random, extents: tuple[int, int], shape: tuple[int, ...]) -> Any:
    """Return places in and around a map: x and y in pixels, (*shape, 2)."""
    import torch

    return torch.stack([drawing.within_pixels(rng, -2, extent, *shape) + 0.5 for extent in extents], dim=-1)
