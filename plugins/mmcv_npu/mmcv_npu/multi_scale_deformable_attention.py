"""Multi-scale deformable attention on the kernel of mx_driving where it fits.

mmcv's autograd Function takes ``im2col_step`` as sixth argument, that of mx_driving (distribution mx-driving 26.2) does
not; mmcv's own class stays, so that saved references keep their meaning. The kernel computes in float32: half precision
is cast, and the result has the dtype of the value, as in mmcv.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from mmcv_npu import kernels


def fits(value: Any, attention_weights: Any) -> bool:
    """Tell whether the kernel takes tensors of these shapes and dtypes on this device.

    Args:
        value: (batch, keys, heads, channels).
        attention_weights: (batch, queries, heads, levels, points).
    """
    heads, channels = value.shape[2:]
    levels, points = attention_weights.shape[3:]
    return (
        kernels.takes(value)
        and kernels.takes_dtype(value)
        and channels % 8 == 0
        and channels <= 256
        and heads <= 8
        and levels * points <= 64
        and value.numel() > 0
        and attention_weights.numel() > 0
    )


def forward_fits(
    ctx: Any, value: Any, shapes: Any, start_index: Any, locations: Any, attention_weights: Any, *im2col_step: Any
) -> bool:
    """Tell whether the kernel takes this call, see :func:`forward`."""
    return fits(value, attention_weights)


def forward(
    ctx: Any,
    value: Any,
    value_spatial_shapes: Any,
    value_level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    im2col_step: Any = None,
) -> Any:
    """Run the forward kernel on mmcv's arguments.

    Args:
        ctx: autograd context, handed through.
        value: (batch, keys, heads, channels).
        value_spatial_shapes: (levels, 2), height and width of each level.
        value_level_start_index: (levels,), index of the first key of each level.
        sampling_locations: (batch, queries, heads, levels, points, 2), x and y in [0, 1].
        attention_weights: (batch, queries, heads, levels, points).
        im2col_step: tiling of mmcv's CUDA kernel; the NPU kernel has none.

    Returns:
        (batch, queries, heads * channels), of the dtype of ``value``.
    """
    from mx_driving import MultiScaleDeformableAttnFunction

    ctx.im2col_step = im2col_step  # mmcv's backward reads it, which may run when the patch is reverted in between
    kernels.mark_forward(ctx)
    with kernels.without_autocast(value):
        out = MultiScaleDeformableAttnFunction.forward(
            ctx,
            value.float(),
            value_spatial_shapes,
            value_level_start_index,
            sampling_locations.float(),
            attention_weights.float(),
        )
    return out.type_as(value)


def backward(ctx: Any, grad_output: Any) -> tuple[Any, ...]:
    """Run the backward kernel; the sixth gradient, ``None``, belongs to ``im2col_step``.

    Args:
        ctx: autograd context of :func:`forward`.
        grad_output: (batch, queries, heads * channels).

    Returns:
        Gradients in float32, which autograd casts to the dtype of each input.
    """
    from mx_driving import MultiScaleDeformableAttnFunction

    return (*MultiScaleDeformableAttnFunction.backward(ctx, grad_output.float()), None)


_FUNCTION = "mmcv.ops.multi_scale_deform_attn:MultiScaleDeformableAttnFunction"

MULTI_SCALE_DEFORMABLE_ATTENTION = pc.Patch(
    "mmcv.multi_scale_deformable_attention",
    [
        pc.Replace(f"{_FUNCTION}.forward", forward, when_call=forward_fits),
        pc.Replace(f"{_FUNCTION}.backward", backward, when_call=kernels.did_forward),
    ],
    summary="MultiScaleDeformableAttention on the mx_driving kernel",
    requires="mmcv>=1.3.3,<3",  # the first that has the operator
    needs="mx_driving",
    legacy_names=["msda", "multi_scale_deformable_attention"],
    checks=pc.Check(
        "mmcv_npu.checks.multi_scale_deformable_attention:called",
        dtypes={"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2},
    ),
)
