"""Random calls of modulated deformable convolution (deformable convolution, version 2)."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import convolutions, drawing


def single_precision(rng: random.Random) -> pc.Case:
    """Draw a call of mmcv's function in float32, with or without a bias."""
    from mmcv.ops.modulated_deform_conv import modulated_deform_conv2d

    drawn = _draw(rng)
    tensors = [tensor.requires_grad_() for tensor in (drawn.x, drawn.offset, drawn.mask, drawn.weight)]
    bias = rng.choice((None, drawn.bias.requires_grad_()))
    return pc.Case(modulated_deform_conv2d, [*tensors, bias, *drawn.geometry])


def half_precision(rng: random.Random) -> pc.Case:
    """Draw a call as mixed precision makes it: the offset has 16 bits, the other tensors have 16 or 32."""
    from mmcv.ops.modulated_deform_conv import modulated_deform_conv2d

    drawn, dtype = _draw(rng), drawing.half(rng)
    autocast = drawing.autocast(rng, dtype)
    x, mask, weight, bias = (
        rng.choice((tensor, tensor.to(dtype))).requires_grad_()
        for tensor in (drawn.x, drawn.mask, drawn.weight, drawn.bias)
    )

    def call(x: Any, offset: Any, mask: Any, weight: Any, bias: Any) -> Any:
        with autocast(x):
            return modulated_deform_conv2d(x, offset, mask, weight, bias, *drawn.geometry)

    def reference(*tensors: Any) -> Any:
        return modulated_deform_conv2d(*(tensor.float() for tensor in tensors), *drawn.geometry).to(dtype)

    return pc.Case(call, [x, drawn.offset.to(dtype).requires_grad_(), mask, weight, bias], reference=reference)


def _draw(rng: random.Random) -> convolutions.Convolution:
    return convolutions.draw(rng, kernel=3, out_channels=rng.choice((64, 128)))
