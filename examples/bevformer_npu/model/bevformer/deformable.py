"""Multi-scale deformable attention (Zhu et al., "Deformable DETR", arXiv:2010.04159) on mmcv's CUDA operator.

The package has an autograd Function of its own, which computes in float32 also where the model runs in half precision.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch
from mmcv.utils import ext_loader
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

_operators = ext_loader.load_ext("_ext", ["ms_deform_attn_forward", "ms_deform_attn_backward"])

IM2COL_STEP = 64


class DeformableAttentionFunction(Function):
    """Sample the feature maps of all levels, weigh the samples and sum them."""

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        spatial_shapes: Tensor,
        level_start_index: Tensor,
        locations: Tensor,
        weights: Tensor,
        im2col_step: int,
    ) -> Tensor:
        """Run mmcv's operator; arguments as for :func:`deformable_attention`, and the operator's tiling."""
        ctx.im2col_step = im2col_step
        ctx.save_for_backward(value, spatial_shapes, level_start_index, locations, weights)
        return _operators.ms_deform_attn_forward(
            value, spatial_shapes, level_start_index, locations, weights, im2col_step=im2col_step
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of value, locations and weights, and ``None`` for the rest."""
        value, spatial_shapes, level_start_index, locations, weights = ctx.saved_tensors
        gradients = [torch.zeros_like(tensor) for tensor in (value, locations, weights)]
        _operators.ms_deform_attn_backward(
            value,
            spatial_shapes,
            level_start_index,
            locations,
            weights,
            grad_output.contiguous(),
            *gradients,
            im2col_step=ctx.im2col_step,
        )
        grad_value, grad_locations, grad_weights = gradients
        return grad_value, None, None, grad_locations, grad_weights, None


def deformable_attention(
    value: Tensor, spatial_shapes: Tensor, level_start_index: Tensor, locations: Tensor, weights: Tensor
) -> Tensor:
    """Attend to feature maps around locations, in float32.

    Args:
        value: the feature maps of all levels, flattened, (batch, keys, heads, channels).
        spatial_shapes: height and width of each level, integers of shape (levels, 2).
        level_start_index: index of each level's first key, integers of shape (levels,).
        locations: x and y as fractions of width and height, (batch, queries, heads, levels, points, 2).
        weights: (batch, queries, heads, levels, points).

    Returns:
        (batch, queries, heads * channels).
    """
    value, locations, weights = value.float(), locations.float(), weights.float()
    if torch.cuda.is_available() and value.is_cuda:
        return DeformableAttentionFunction.apply(
            value, spatial_shapes, level_start_index, locations, weights, IM2COL_STEP
        )
    return multi_scale_deformable_attn_pytorch(value, spatial_shapes, locations, weights)
