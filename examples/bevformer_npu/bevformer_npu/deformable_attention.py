"""The model's own copy of deformable attention, on the kernel of mx_driving where that takes the call.

mmcv-npu-patches does the same for mmcv's Function, which this copy stands next to. The copy calls mmcv's operators,
which that distribution patches, too: this patch shows how a class of one's own is replaced.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc


def kernel_takes(value: Any, weights: Any) -> bool:
    """Tell whether the kernel (distribution mx-driving 26.2) takes tensors like these.

    Args:
        value: (batch, keys, heads, channels).
        weights: (batch, queries, heads, levels, points).
    """
    heads, channels = value.shape[2:]
    levels, points = weights.shape[3:]
    return (
        value.device.type == "npu"
        and channels % 8 == 0
        and channels <= 256
        and heads <= 8
        and levels * points <= 64
        and value.numel() > 0
        and weights.numel() > 0
    )


def takes_forward(
    ctx: Any, value: Any, shapes: Any, start: Any, locations: Any, weights: Any, im2col_step: Any
) -> bool:
    """Tell whether the kernel takes this call of ``forward``."""
    return kernel_takes(value, weights)


def forward(ctx: Any, value: Any, shapes: Any, start: Any, locations: Any, weights: Any, im2col_step: Any) -> Any:
    """Replace ``DeformableAttentionFunction.forward``.

    Args:
        ctx: autograd context.
        value: (batch, keys, heads, channels).
        shapes: height and width of each level, (levels, 2).
        start: index of each level's first key, (levels,).
        locations: x and y as fractions of width and height, (batch, queries, heads, levels, points, 2).
        weights: (batch, queries, heads, levels, points).
        im2col_step: tiling of the CUDA operator, kept for its backward: the patch may be reverted before that.

    Returns:
        (batch, queries, heads * channels).
    """
    from mx_driving import MultiScaleDeformableAttnFunction

    ctx.im2col_step = im2col_step
    return MultiScaleDeformableAttnFunction.forward(ctx, value, shapes, start, locations, weights)


def takes_backward(ctx: Any, grad_output: Any) -> bool:
    """Tell whether the kernel takes the backward pass: it does where it took the forward pass."""
    value, _, _, _, weights = ctx.saved_tensors
    return kernel_takes(value, weights)


def backward(ctx: Any, grad_output: Any) -> tuple[Any, ...]:
    """Replace ``DeformableAttentionFunction.backward``: the kernel's gradients, and ``None`` for ``im2col_step``.

    Args:
        ctx: autograd context of :func:`forward`.
        grad_output: (batch, queries, heads * channels).
    """
    from mx_driving import MultiScaleDeformableAttnFunction

    return (*MultiScaleDeformableAttnFunction.backward(ctx, grad_output), None)


_FUNCTION = "bevformer.deformable:DeformableAttentionFunction"

DEFORMABLE_ATTENTION = pc.Patch(
    "bevformer.deformable_attention",
    [
        pc.Replace(f"{_FUNCTION}.forward", forward, when_call=takes_forward),
        pc.Replace(f"{_FUNCTION}.backward", backward, when_call=takes_backward),
    ],
    summary="the model's own copy of deformable attention on the mx_driving kernel",
    requires=["mmcv>=1.7,<3"],
    needs=["mx_driving"],
    checks=[pc.Check("bevformer_npu.checks:deformable_function", dtypes={"float32": 1e-5})],
)
