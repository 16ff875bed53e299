"""Multi-scale deformable attention, which builds of mmcv have a kernel for from 2.2.0 on."""

from __future__ import annotations

from functools import partial

from torch import Tensor

__all__ = ["ms_deform_attn_backward", "ms_deform_attn_forward"]


def ms_deform_attn_forward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """Return the attention, (batch, queries, heads * channels).

    Args:
        value: (batch, keys, heads, channels).
        value_spatial_shapes: (levels, 2), height and width of each level.
        value_level_start_index: (levels,), index of the first key of each level.
        sampling_locations: (batch, queries, heads, levels, points, 2), x and y in [0, 1].
        attention_weights: (batch, queries, heads, levels, points).
        im2col_step: not used, as on an NPU.

    Raises:
        RuntimeError: the kernel does not take the shapes.
    """
    # Here and not above: importing the stand-in is importing mx_driving, which programs that do not use it are spared.
    from npu_emulator.mx_driving.ops.multi_scale_deformable_attn import attend

    _require_support(value, attention_weights)
    return attend(
        value,
        sampling_locations,
        attention_weights,
        spatial_shapes=value_spatial_shapes,
        level_start_index=value_level_start_index,
    )


def ms_deform_attn_backward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    grad_output: Tensor,
    grad_value: Tensor,
    grad_sampling_loc: Tensor,
    grad_attn_weight: Tensor,
    im2col_step: int,
) -> None:
    """Write the gradients of the value, the locations and the weights; see the forward pass."""
    from npu_emulator.formulas.differentiation import gradients
    from npu_emulator.mx_driving.ops.multi_scale_deformable_attn import attend

    _require_support(value, attention_weights)
    function = partial(attend, spatial_shapes=value_spatial_shapes, level_start_index=value_level_start_index)
    found = gradients(function, (value, sampling_locations, attention_weights), grad_output)
    for gradient, place in zip(found, (grad_value, grad_sampling_loc, grad_attn_weight)):
        place.copy_(gradient)


def _require_support(value: Tensor, attention_weights: Tensor) -> None:
    """Raise the errors that ``check_support`` of mmcv 2.2.0 raises (``ms_deform_attn_npu.cpp``)."""
    heads, channels = value.shape[2:]
    _require_range("num_heads", heads, 4, 8)
    _require_range("embed_dims", channels, 32, 256)
    _require_range("num_points", attention_weights.shape[4], 4, 8)


def _require_range(name: str, found: int, least: int, most: int) -> None:
    if not least <= found <= most:
        raise RuntimeError(f"{name} should be in the range of [{least}, {most}]")
