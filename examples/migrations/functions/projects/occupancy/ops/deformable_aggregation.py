"""Weighted sums of image features at computed places, by our CUDA kernel (setup.py builds aggregation_ext)."""

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from projects.occupancy.ops import aggregation_ext


class DeformableAggregationFunction(Function):
    """The CUDA kernel, for features of shape (n, keys, heads, channels) and one level."""

    @staticmethod
    def forward(ctx, value, shapes, starts, locations, weights):
        ctx.save_for_backward(value, shapes, starts, locations, weights)
        return aggregation_ext.forward(value, shapes, starts, locations, weights)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        grad_value, grad_locations, grad_weights = aggregation_ext.backward(*ctx.saved_tensors, grad_output)
        return grad_value, None, None, grad_locations, grad_weights


def aggregate(value, shape, locations, weights):
    """Return the sums, shape (n, queries, heads * channels).

    Args:
        value: features, shape (n, height * width, heads, channels).
        shape: height and width.
        locations: places as fractions of width and height, shape (n, queries, heads, points, 2).
        weights: shape (n, queries, heads, points).
    """
    if value.is_cuda:
        shapes = torch.tensor([shape], device=value.device)
        starts = torch.tensor([0], device=value.device)
        locations, weights = locations.unsqueeze(3), weights.unsqueeze(3)
        return DeformableAggregationFunction.apply(value, shapes, starts, locations.contiguous(), weights.contiguous())
    return _aggregate_on_cpu(value, shape, locations, weights)


def _aggregate_on_cpu(value, shape, locations, weights):
    n, _, heads, channels = value.shape
    maps = value.permute(0, 2, 3, 1).reshape(n * heads, channels, *shape)
    places = locations.transpose(1, 2).flatten(0, 1) * 2 - 1
    sampled = F.grid_sample(maps, places, align_corners=False)
    summed = (sampled * weights.transpose(1, 2).flatten(0, 1).unsqueeze(1)).sum(-1)
    return summed.view(n, heads * channels, -1).transpose(1, 2)
