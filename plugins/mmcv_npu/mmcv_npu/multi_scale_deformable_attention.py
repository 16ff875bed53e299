"""Multi-scale deformable attention on the kernel of mx_driving.

mmcv's autograd Function takes ``im2col_step`` as sixth argument, that of mx_driving (distribution mx-driving 26.2) does not;
mmcv's own class stays, so that saved references keep their meaning.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc


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
        (batch, queries, heads * channels).
    """
    from mx_driving import MultiScaleDeformableAttnFunction

    return MultiScaleDeformableAttnFunction.forward(
        ctx, value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
    )


def backward(ctx: Any, grad_output: Any) -> tuple[Any, ...]:
    """Run the backward kernel; the sixth gradient, ``None``, belongs to ``im2col_step``.

    Args:
        ctx: autograd context of :func:`forward`.
        grad_output: (batch, queries, heads * channels).
    """
    from mx_driving import MultiScaleDeformableAttnFunction

    return (*MultiScaleDeformableAttnFunction.backward(ctx, grad_output), None)


_FUNCTION = "mmcv.ops.multi_scale_deform_attn:MultiScaleDeformableAttnFunction"

MULTI_SCALE_DEFORMABLE_ATTENTION = pc.Patch(
    "mmcv.multi_scale_deformable_attention",
    [pc.Replace(f"{_FUNCTION}.forward", forward), pc.Replace(f"{_FUNCTION}.backward", backward)],
    summary="MultiScaleDeformableAttention on the mx_driving kernel",
    requires="mmcv>=2,<3",
    needs="mx_driving",
    legacy_names=["msda", "multi_scale_deformable_attention"],
)
