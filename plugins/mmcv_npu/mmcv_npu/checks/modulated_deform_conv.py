"""Random calls of modulated deformable convolution (deformable convolution, version 2)."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import convolutions, drawing


def called(rng: random.Random, size: pc.Size = pc.Size.SMALL, dtype: str = "float32") -> pc.Case:
    """Draw a call of mmcv's function, with or without a bias.

    In 16 bits it is one that mixed precision makes: the offset has them, the other tensors have them or 32.
    """
    import torch
    from mmcv.ops.modulated_deform_conv import modulated_deform_conv2d

    drawn = convolutions.draw(rng, size, kernel=3, out_channels=rng.choice((64, 128)))
    wanted = getattr(torch, dtype)
    autocast = drawing.autocast(rng, wanted)
    x, mask, weight, *bias = drawing.mixed(
        rng, wanted, drawn.x, drawn.mask, drawn.weight, *rng.choice(((), (drawn.bias,)))
    )

    def call(x: Any, offset: Any, mask: Any, weight: Any, bias: Any = None) -> Any:
        with autocast(x):
            return modulated_deform_conv2d(x, offset, mask, weight, bias, *drawn.geometry)

    def reference(x: Any, offset: Any, mask: Any, weight: Any, bias: Any = None) -> Any:
        x, offset, mask, weight = (tensor.float() for tensor in (x, offset, mask, weight))
        bias = None if bias is None else bias.float()
        return modulated_deform_conv2d(x, offset, mask, weight, bias, *drawn.geometry).to(wanted)

    tensors = [tensor.requires_grad_() for tensor in (x, drawn.offset.to(wanted), mask, weight, *bias)]
    return pc.Case(call, tensors, reference=reference)
