"""Multi-scale deformable attention (mx-driving 26.2, ``mx_driving/ops/multi_scale_deformable_attn.py``).

Paper: Zhu et al., "Deformable DETR" (arXiv:2010.04159).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Optional

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.formulas.sampling import corners, weighted_rows
from npu_emulator.mx_driving._counting import calls


class MultiScaleDeformableAttnFunction(Function):
    """Multi-scale deformable attention. ``forward`` and ``backward`` also work on a ctx of somebody else.

    That is how patches use it: mmcv's Function of this name takes ``im2col_step`` as a sixth argument and returns a
    sixth gradient, this one does not. Under autocast the inputs become float32, as in mx_driving.
    """

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        value: Tensor,
        value_spatial_shapes: Tensor,
        value_level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        **kwargs: Any,
    ) -> Tensor:
        """Sample, weigh and sum values around reference points.

        Args:
            ctx: the autograd context.
            value: the feature maps of all levels, flattened, shape (n, keys, heads, channels).
            value_spatial_shapes: (height, width) of each level, integers of shape (levels, 2).
            value_level_start_index: index of each level's first key, integers of shape (levels,).
            sampling_locations: shape (n, queries, heads, levels, points, 2), (x, y) as fractions of the level's
                width and height; cast to the dtype of value.
            attention_weights: shape (n, queries, heads, levels, points); cast to the dtype of value.
            **kwargs: ignored, as in mx_driving.

        Returns:
            Shape (n, queries, heads * channels).

        Raises:
            ValueError: a tensor is empty.
            LimitError: the arguments are outside the limits of the device.
        """
        sampling_locations = sampling_locations.type_as(value)
        attention_weights = attention_weights.type_as(value)
        _require_not_empty(value, value_spatial_shapes, attention_weights)
        _require_limits(value, attention_weights)
        calls["multi_scale_deformable_attn"] += 1
        ctx.save_for_backward(
            value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
        )
        return attend(
            value,
            sampling_locations,
            attention_weights,
            spatial_shapes=value_spatial_shapes,
            level_start_index=value_level_start_index,
        )

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return five gradients: of value, ``None``, ``None``, of sampling_locations, of attention_weights."""
        calls["multi_scale_deformable_attn_backward"] += 1
        value, spatial_shapes, level_start_index, sampling_locations, attention_weights = ctx.saved_tensors
        function = partial(attend, spatial_shapes=spatial_shapes, level_start_index=level_start_index)
        grad_value, grad_locations, grad_weights = gradients(
            function, (value, sampling_locations, attention_weights), grad_output
        )
        return grad_value, None, None, grad_locations, grad_weights


# Bound as in mx_driving: positional arguments only.
multi_scale_deformable_attn = MultiScaleDeformableAttnFunction.apply


def npu_multi_scale_deformable_attn_function(
    value: Tensor, shape: Tensor, offset: Tensor, locations: Tensor, weight: Tensor
) -> Tensor:
    """Same as :func:`multi_scale_deformable_attn`; deprecated in mx_driving."""
    warnings.warn(
        "mx_driving.npu_multi_scale_deformable_attn_function is deprecated, use mx_driving.multi_scale_deformable_attn",
        DeprecationWarning,
        stacklevel=2,
    )
    return multi_scale_deformable_attn(value, shape, offset, locations, weight)


def attend(
    value: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
) -> Tensor:
    """Compute the attention, without the limits of the kernel; arguments as for the kernel's forward pass."""
    batch, keys, heads, channels = value.shape
    queries = sampling_locations.shape[1]
    height, width = spatial_shapes.view(1, 1, 1, -1, 1, 2).unbind(dim=-1)

    # Fractions of the map to pixels, of which number i has its centre at i (align_corners=False).
    location_x, location_y = sampling_locations.unbind(dim=-1)
    index, corner_weight = corners(location_y * height - 0.5, location_x * width - 0.5, height, width)
    corner_weight = corner_weight * attention_weights.unsqueeze(-1)

    # One table row per image, key and head; per query and head, one weighted sum over levels, points and corners.
    table = value.reshape(-1, channels)
    image = torch.arange(batch, device=value.device).view(batch, 1, 1, 1, 1, 1)
    head = torch.arange(heads, device=value.device).view(1, 1, heads, 1, 1, 1)
    key = level_start_index.view(1, 1, 1, -1, 1, 1) + index
    row = (image * keys + key) * heads + head
    output = weighted_rows(table, row.flatten(start_dim=3), corner_weight.flatten(start_dim=3))
    return output.reshape(batch, queries, heads * channels)


def _require_not_empty(value: Tensor, spatial_shapes: Tensor, attention_weights: Tensor) -> None:
    """Refuse the arguments that mx_driving refuses on every device; there is nothing to compute."""
    tensors = {
        "value": value,
        "value_spatial_shapes": spatial_shapes,
        "attention_weights": attention_weights,
    }
    for name, tensor in tensors.items():
        if tensor.numel() == 0:
            raise ValueError(
                f"mx_driving.multi_scale_deformable_attn: expected no empty tensor, found {name} of shape "
                f"{tuple(tensor.shape)}"
            )


def _require_limits(value: Tensor, attention_weights: Tensor) -> None:
    kernel = "multi_scale_deformable_attn"
    heads, channels = value.shape[2:]
    levels, points = attention_weights.shape[3:]
    limits.require(channels % 8 == 0 and channels <= 256, kernel, "a multiple of 8 up to 256 channels", channels)
    limits.require(heads <= 8, kernel, "at most 8 heads", heads)
    limits.require(levels * points <= 64, kernel, "at most 64 levels * points", f"{levels} * {points}")
