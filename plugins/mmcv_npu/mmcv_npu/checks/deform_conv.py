"""Random calls of deformable convolution, version 1."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import convolutions, drawing


def called(rng: random.Random, size: pc.Size = pc.Size.SMALL, dtype: str = "float32") -> pc.Case:
    """Draw a call of mmcv's function.

    In 16 bits it is one that mixed precision makes: the offset has them, input and weight have them or 32.
    """
    import torch
    from mmcv.ops.deform_conv import deform_conv2d

    drawn = convolutions.draw(rng, size, kernel=rng.choice((1, 3)), out_channels=rng.choice((4, 12, 64)))
    wanted = getattr(torch, dtype)
    autocast = drawing.autocast(rng, wanted)
    x, weight = drawing.mixed(rng, wanted, drawn.x, drawn.weight)

    def call(x: Any, offset: Any, weight: Any) -> Any:
        with autocast(x):
            return deform_conv2d(x, offset, weight, *drawn.geometry)

    def reference(*tensors: Any) -> Any:
        return deform_conv2d(*(tensor.float() for tensor in tensors), *drawn.geometry).to(wanted)

    tensors = [tensor.requires_grad_() for tensor in (x, drawn.offset.to(wanted), weight)]
    return pc.Case(call, tensors, reference=reference)
