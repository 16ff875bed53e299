"""Operators that compute element by element."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["fused_bias_leakyrelu"]


def fused_bias_leakyrelu(
    input: Tensor, bias: Tensor, empty: Tensor, act: int, grad: int, alpha: float, scale: float
) -> Tensor:
    """Return a scaled leaky ReLU of ``input + bias``, or its derivative (mmcv, ``fused_bias_leakyrelu_cuda.cu``).

    Args:
        input: (batch, channels, ...), the features, or the gradient of the output.
        bias: (channels,), or empty.
        empty: the output of the forward pass, where ``grad`` is 1.
        act: 3 for the leaky ReLU, 1 for the identity.
        grad: 0 for the forward pass, 1 for the backward pass, 2 for the second derivative, which is zero.
        alpha: slope of the negative part.
        scale: factor of the result.
    """
    x = input
    if bias.numel():
        x = x + bias.view(1, -1, *[1] * (x.dim() - 2)).to(x.dtype)
    if grad == 2:
        return torch.zeros_like(x)
    if act == 3:
        x = torch.where((x if grad == 0 else empty) > 0, x, x * alpha)
    return x * scale
