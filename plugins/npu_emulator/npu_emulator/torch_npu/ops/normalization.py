"""Normalizations, alone and fused with operators before or after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional

from npu_emulator.torch_npu.ops.precision import accumulated
from npu_emulator.torch_npu.ops.registry import operator

__all__ = [
    "npu_add_rms_norm",
    "npu_deep_norm",
    "npu_gemma_rms_norm",
    "npu_group_norm_silu",
    "npu_layer_norm_eval",
    "npu_normalize_batch",
    "npu_rms_norm",
]

#: The number that npu_normalize_batch adds to the standard deviation; the signature has no argument for it.
_BATCH_EPSILON = 1e-5


@operator("npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)", differentiable=(0,))
def npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Divide by the root mean square over the dimensions of ``gamma`` (Zhang and Sennrich, arXiv:1910.07467).

    Args:
        input: floating point.
        gamma: scale, of the shape of the last dimensions of ``input``.
        epsilon: added to the mean square.

    Returns:
        The result, and the reciprocal of the root mean square: float32 for 16-bit types, with size 1 in the
        normalized dimensions.
    """
    normalized, reciprocal = _rms_normalized(input, gamma.dim(), epsilon)
    return (normalized * accumulated(gamma)).to(input.dtype), reciprocal


@operator(
    "npu_gemma_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)", differentiable=False
)
def npu_gemma_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Return the result of :func:`npu_rms_norm` with a scale of ``1 + gamma``.

    Args:
        input: floating point.
        gamma: of the shape of the last dimensions of ``input``.
        epsilon: added to the mean square.
    """
    normalized, reciprocal = _rms_normalized(input, gamma.dim(), epsilon)
    return (normalized * (1 + accumulated(gamma))).to(input.dtype), reciprocal


@operator(
    "npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)",
    differentiable=False,
)
def npu_add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """Return :func:`npu_rms_norm` of a sum, and the sum.

    For inference: op-plugin has no derivative of it.

    Args:
        x1: floating point.
        x2: of the same shape and dtype.
        gamma: scale, of the shape of the last dimensions.
        epsilon: added to the mean square.

    Returns:
        The result, the reciprocal of the root mean square, and ``x1 + x2``.
    """
    total = accumulated(x1) + accumulated(x2)
    normalized, reciprocal = _rms_normalized(total, gamma.dim(), epsilon)
    return (normalized * accumulated(gamma)).to(x1.dtype), reciprocal, total.to(x1.dtype)


@operator(
    "npu_deep_norm(Tensor x, Tensor gx, Tensor beta, Tensor gamma, float alpha=0.3, float epsilon=1e-06)"
    " -> (Tensor, Tensor, Tensor)",
    differentiable=(2,),
)
def npu_deep_norm(
    x: Tensor, gx: Tensor, beta: Tensor, gamma: Tensor, alpha: float = 0.3, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize ``alpha * x + gx`` to mean 0 and variance 1 (Wang et al., DeepNet, arXiv:2203.00555).

    Args:
        x: floating point, the residual branch.
        gx: of the same shape, the output of the layer.
        beta: added, of the shape of the last dimensions.
        gamma: scale, of the same shape as ``beta``.
        alpha: weight of ``x``.
        epsilon: added to the variance.

    Returns:
        Mean and reciprocal of the standard deviation, with size 1 in the normalized dimensions, and the result.
    """
    total = alpha * accumulated(x) + accumulated(gx)
    dims = tuple(range(-gamma.dim(), 0))
    variance, mean = torch.var_mean(total, dim=dims, correction=0, keepdim=True)
    reciprocal = torch.rsqrt(variance + epsilon)
    output = (total - mean) * reciprocal * accumulated(gamma) + accumulated(beta)
    return mean, reciprocal, output.to(x.dtype)


@operator(
    "npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=0.00001)"
    " -> (Tensor, Tensor, Tensor)",
    differentiable=False,
)
def npu_group_norm_silu(
    input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], group: int, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Return SiLU of a group normalization (Wu and He, arXiv:1803.08494), and its statistics.

    Op-plugin has no derivative of it.

    Args:
        input: shape (n, c, ...).
        weight: scale per channel, shape (c,), or ``None``.
        bias: added per channel, shape (c,), or ``None``.
        group: divides c.
        eps: added to the variance.

    Returns:
        The result, and per image and group mean and reciprocal of the standard deviation, shape (n, group), all of
        the dtype of ``input``.
    """
    x = accumulated(input)
    grouped = x.reshape(x.shape[0], group, -1)
    variance, mean = torch.var_mean(grouped, dim=-1, correction=0)
    reciprocal = torch.rsqrt(variance + eps)
    output = ((grouped - mean.unsqueeze(-1)) * reciprocal.unsqueeze(-1)).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.dim() - 2)
    if weight is not None:
        output = output * accumulated(weight).view(per_channel)
    if bias is not None:
        output = output + accumulated(bias).view(per_channel)
    return functional.silu(output).to(input.dtype), mean.to(input.dtype), reciprocal.to(input.dtype)


@operator(
    "npu_layer_norm_eval(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None,"
    " float eps=1e-05) -> Tensor",
    differentiable=False,
)
def npu_layer_norm_eval(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return :func:`torch.nn.functional.layer_norm`, without gradients.

    Args:
        input: floating point.
        normalized_shape: the last sizes of ``input``.
        weight: scale, of that shape.
        bias: added, of that shape.
        eps: added to the variance.
    """
    return functional.layer_norm(input, list(normalized_shape), weight, bias, eps)


@operator("npu_normalize_batch(Tensor input, Tensor seq_len, int normalize_type=0) -> Tensor", differentiable=False)
def npu_normalize_batch(input: Tensor, seq_len: Tensor, normalize_type: int = 0) -> Tensor:
    """Normalize sequences to mean 0 and standard deviation 1, with the statistics of their first elements.

    The documentation gives no formula. Its example fixes this much: the standard deviation is that of a sample (divided
    by the count less one), and elements beyond ``seq_len`` are normalized too. That epsilon is added to the standard
    deviation and not to the variance is taken from the speech models that the operator was made for.

    Args:
        input: shape (n, c, d).
        seq_len: how many of the d elements of each sequence make its statistics, shape (n,), int32.
        normalize_type: 0 for statistics per sequence and channel, 1 per sequence.

    Raises:
        ValueError: a shape does not fit, or there is no such type.
    """
    if seq_len.shape != input.shape[:1]:
        raise ValueError(
            f"npu_normalize_batch: expected seq_len of shape ({input.shape[0]},), found {tuple(seq_len.shape)}"
        )
    if normalize_type not in (0, 1):
        raise ValueError(f"npu_normalize_batch: expected normalize_type 0 or 1, found {normalize_type}")
    dims = (2,) if normalize_type == 0 else (1, 2)
    counted = torch.arange(input.shape[2], device=input.device) < seq_len.view(-1, 1, 1)
    weight = counted.expand_as(input).to(input.dtype)
    count = weight.sum(dims, keepdim=True)
    mean = (input * weight).sum(dims, keepdim=True) / count
    variance = ((input - mean).square() * weight).sum(dims, keepdim=True) / (count - 1)
    return (input - mean) / (variance.sqrt() + _BATCH_EPSILON)


def _rms_normalized(tensor: Tensor, dimensions: int, epsilon: float) -> tuple[Tensor, Tensor]:
    x = accumulated(tensor)
    reciprocal = torch.rsqrt(x.square().mean(dim=tuple(range(-dimensions, 0)), keepdim=True) + epsilon)
    return x * reciprocal, reciprocal
