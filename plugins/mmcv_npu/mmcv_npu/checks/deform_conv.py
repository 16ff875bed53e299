"""Random calls of deformable convolution, version 1."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import convolutions, drawing


def single_precision(rng: random.Random) -> pc.Case:
    """Draw a call of mmcv's function in float32."""
    from mmcv.ops.deform_conv import deform_conv2d

    drawn = _draw(rng)
    tensors = [tensor.requires_grad_() for tensor in (drawn.x, drawn.offset, drawn.weight)]
    return pc.Case(deform_conv2d, [*tensors, *drawn.geometry])


def half_precision(rng: random.Random) -> pc.Case:
    """Draw a call as mixed precision makes it: the offset has 16 bits, input and weight have 16 or 32."""
    from mmcv.ops.deform_conv import deform_conv2d

    drawn, dtype = _draw(rng), drawing.half(rng)
    autocast = drawing.autocast(rng, dtype)
    x, weight = (rng.choice((tensor, tensor.to(dtype))).requires_grad_() for tensor in (drawn.x, drawn.weight))

    def call(x: Any, offset: Any, weight: Any) -> Any:
        with autocast(x):
            return deform_conv2d(x, offset, weight, *drawn.geometry)

    def reference(x: Any, offset: Any, weight: Any) -> Any:
        return deform_conv2d(x.float(), offset.float(), weight.float(), *drawn.geometry).to(dtype)

    return pc.Case(call, [x, drawn.offset.to(dtype).requires_grad_(), weight], reference=reference)


def _draw(rng: random.Random) -> convolutions.Convolution:
    return convolutions.draw(rng, kernel=rng.choice((1, 3)), out_channels=rng.choice((4, 12, 64)))
