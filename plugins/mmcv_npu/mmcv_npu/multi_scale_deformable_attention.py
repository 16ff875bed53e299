"""Multi-scale deformable attention on the kernel of mx_driving where it fits.

Two places are patched. mmcv's autograd Function keeps locations and weights in float32 where the value is in half
precision. The operators of ``mmcv._ext`` serve the Functions that models bring with them, whatever their name:
BEVFormer and the models after it carry a ``multi_scale_deformable_attn_function.py`` that loads the operators with
``ext_loader.load_ext``. Shapes that the kernel does not take are computed there by mmcv's plain PyTorch function, and
so is float64, in which it computes on the NPU as on the CPU.

mmcv's autograd Function takes ``im2col_step`` as sixth argument, that of mx_driving (distribution mx-driving 26.2) does
not; mmcv's own class stays, so that saved references keep their meaning. Half precision is computed in float32, and the
result has the dtype of the value, as in mmcv.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import patchcore as pc
from mmcv_npu import kernels, other_paths

#: Most heads and channels of a head that the kernel takes.
MOST_HEADS, MOST_CHANNELS = 8, 256


def limit(value: Any, attention_weights: Any) -> Optional[str]:
    """Return which limit of the kernel a call is outside of, ``None`` if it is within all.

    Args:
        value: (batch, keys, heads, channels).
        attention_weights: (batch, queries, heads, levels, points).
    """
    heads, channels = value.shape[2:]
    levels, points = attention_weights.shape[3:]
    if not value.numel() or not attention_weights.numel():
        return "the kernel takes no empty tensors"
    if channels % 8 or channels > MOST_CHANNELS:
        return f"the kernel takes channels of a head in multiples of 8, up to {MOST_CHANNELS}"
    if heads > MOST_HEADS:
        return f"the kernel takes up to {MOST_HEADS} heads"
    if levels * points > 64:
        return "the kernel takes up to 64 levels x points"
    return None if kernels.takes_dtype(value) else "the kernel computes in float32"


def forward_fits(
    ctx: Any, value: Any, shapes: Any, start_index: Any, locations: Any, attention_weights: Any, *im2col_step: Any
) -> bool:
    """Return whether the kernel takes this call, see :func:`forward`."""
    return kernels.takes(value) and limit(value, attention_weights) is None


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


def operator_fits(value: Any, *rest: Any, **named: Any) -> bool:
    """Return whether a call of an operator of ``mmcv._ext`` is one for the NPU; any shape is."""
    return kernels.takes(value)


def operator_forward(
    value: Any,
    value_spatial_shapes: Any,
    value_level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    im2col_step: Any = None,
) -> Any:
    """Replace ``mmcv._ext.ms_deform_attn_forward``; arguments as for :func:`forward`.

    Returns:
        (batch, queries, heads * channels), of the dtype of ``value``.
    """
    import torch

    reason = limit(value, attention_weights)
    floats = _computed((value, sampling_locations, attention_weights))
    with torch.no_grad(), kernels.without_autocast(value):
        if reason is None:
            from mx_driving import multi_scale_deformable_attn

            out = multi_scale_deformable_attn(floats[0], value_spatial_shapes, value_level_start_index, *floats[1:])
        else:
            shapes = (" x ".join(map(str, tensor.shape)) for tensor in (value, attention_weights))
            call = "value {}, weights {}".format(*shapes)
            other_paths.note(_NAME, call, "mmcv's multi_scale_deformable_attn_pytorch", reason)
            out = _attended(floats[0], value_spatial_shapes, *floats[1:])
    return out.type_as(value)


def operator_backward(
    value: Any,
    value_spatial_shapes: Any,
    value_level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    grad_output: Any,
    grad_value: Any,
    grad_sampling_loc: Any,
    grad_attn_weight: Any,
    im2col_step: Any = None,
) -> None:
    """Replace ``mmcv._ext.ms_deform_attn_backward``: write the three gradients to the tensors for them.

    The other arguments are those of :func:`operator_forward`, and the gradient of its result.
    """
    import torch

    floats = _computed((value, sampling_locations, attention_weights))
    with kernels.without_autocast(value):
        if limit(value, attention_weights) is None:
            from mx_driving import MultiScaleDeformableAttnFunction

            context = _Context(floats[0], value_spatial_shapes, value_level_start_index, *floats[1:])
            found = MultiScaleDeformableAttnFunction.backward(context, grad_output.float())
            gradients = (found[0], *found[3:5])
        else:
            leaves = [tensor.requires_grad_() for tensor in floats]
            with torch.enable_grad():
                out = _attended(leaves[0], value_spatial_shapes, *leaves[1:])
            gradients = torch.autograd.grad(out, leaves, grad_output.type_as(out))
    for place, gradient in zip((grad_value, grad_sampling_loc, grad_attn_weight), gradients):
        place.copy_(gradient)


class _Context:
    """The autograd context of a forward pass that was done elsewhere, as the kernel's backward pass reads it.

    Args:
        saved_tensors: the arguments of the forward pass.
    """

    def __init__(self, *saved_tensors: Any) -> None:
        import torch

        self.saved_tensors = saved_tensors
        # torch.amp.custom_fwd leaves it for custom_bwd
        self._fwd_used_autocast = False
        self._dtype = torch.float32


def _computed(tensors: Sequence[Any]) -> list[Any]:
    """Return tensors in the dtype to compute in: float64 where the first has it, else float32."""
    import torch

    dtype = torch.float64 if tensors[0].dtype == torch.float64 else torch.float32
    return [tensor.detach().to(dtype) for tensor in tensors]


def _attended(value: Any, shapes: Any, locations: Any, weights: Any) -> Any:
    if not value.numel() or not weights.numel():
        queries = weights.shape[1]
        nothing = value.sum() + locations.sum() + weights.sum()  # for the gradients, which are zero
        return nothing + value.new_zeros(value.shape[0], queries, value.shape[2] * value.shape[3])
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch

    return multi_scale_deformable_attn_pytorch(value, shapes, locations, weights)


_NAME = "mmcv.multi_scale_deformable_attention"
_FUNCTION = "mmcv.ops.multi_scale_deform_attn:MultiScaleDeformableAttnFunction"

MULTI_SCALE_DEFORMABLE_ATTENTION = pc.Patch(
    _NAME,
    [
        pc.Replace(f"{_FUNCTION}.forward", forward, when_call=forward_fits),
        pc.Replace(f"{_FUNCTION}.backward", backward, when_call=kernels.did_forward),
        pc.Replace("mmcv._ext:ms_deform_attn_forward", operator_forward, when_call=operator_fits),
        pc.Replace("mmcv._ext:ms_deform_attn_backward", operator_backward, when_call=operator_fits),
    ],
    summary="MultiScaleDeformableAttention, and copies of it in models, on the mx_driving kernel",
    requires="mmcv>=1.3.3,<3",  # the first that has the operator
    when=kernels.operators_are_built,
    needs="mx_driving",
    legacy_names=["msda", "multi_scale_deformable_attention", "MultiScaleDeformableAttention", "MSDA"],
    checks=[
        pc.Check(
            f"mmcv_npu.checks.multi_scale_deformable_attention:{draw}",
            dtypes={"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2},
        )
        for draw in ("called", "copied")
    ],
)
