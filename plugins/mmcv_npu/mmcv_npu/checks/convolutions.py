"""Random deformable convolutions, for both versions of the operator."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import patchcore as pc
from mmcv_npu.checks import drawing


class Convolution(NamedTuple):
    """The arguments of one deformable convolution, float32.

    Args:
        x: (batch, channels, height, width).
        offset: (batch, 2 * kernel height * kernel width, out height, out width), in pixels.
        mask: (batch, kernel height * kernel width, out height, out width).
        weight: (out channels, channels / groups, kernel height, kernel width).
        bias: (out channels,).
        geometry: stride, padding, dilation, groups, deform_groups.
    """

    x: Any
    offset: Any
    mask: Any
    weight: Any
    bias: Any
    geometry: tuple[Any, ...]


def draw(rng: random.Random, size: pc.Size, kernel: int, out_channels: int) -> Convolution:
    """Draw a convolution that the kernels take; samples lie inside and outside the image.

    Args:
        rng: the generator to draw from.
        size: of the image.
        kernel: height and width of the convolution's kernel.
        out_channels: a multiple of 4.
    """
    batch = rng.randint(1, 3) if size is pc.Size.SMALL else 1
    channels = rng.choice((64, 64, 128))
    groups = rng.choice((1, 1, 2, 4))
    stride, padding, dilation = ((rng.randint(low, 2), rng.randint(low, 2)) for low in (1, 0, 1))
    covered = [dilation[axis] * (kernel - 1) + 1 for axis in (0, 1)]
    # from the smallest image that there is a result for; one smaller than the kernel is refused by mmcv on the CPU
    image = [
        max(kernel, covered[axis] - 2 * padding[axis]) + size.draw(rng, small=(1, 7), typical=(20, 40)) - 1
        for axis in (0, 1)
    ]
    out = [(image[axis] + 2 * padding[axis] - covered[axis]) // stride[axis] + 1 for axis in (0, 1)]
    taps = kernel * kernel
    return Convolution(
        drawing.normal(rng, batch, channels, *image),
        drawing.within_pixels(rng, -3, 2, batch, 2 * taps, *out),
        drawing.uniform(rng, 0.0, 1.0, batch, taps, *out),
        drawing.normal(rng, out_channels, channels // groups, kernel, kernel),
        drawing.normal(rng, out_channels),
        (stride, padding, dilation, groups, 1),
    )
