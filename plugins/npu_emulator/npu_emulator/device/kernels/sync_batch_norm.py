"""The operators that ``torch.nn.SyncBatchNorm`` is made of, which only CUDA has.

Definitions: Ioffe and Szegedy, "Batch Normalization" (2015), with the mean and variance of all processes' batches
joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
(1979). Half precision is computed in float32, as on hardware.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from npu_emulator.device.interface import Core
from npu_emulator.device.kernels.library import KernelLibrary

__all__ = ["backward_elements", "backward_reduce", "elements", "gather_statistics", "register", "statistics"]


def register(library: KernelLibrary, core: Core) -> None:
    """Register the operators."""
    library.kernel("batch_norm_stats", statistics)
    library.kernel("batch_norm_gather_stats_with_counts", gather_statistics)
    library.kernel("batch_norm_elemt", elements)
    library.kernel("batch_norm_backward_reduce", backward_reduce)
    library.kernel("batch_norm_backward_elemt", backward_elements)


def statistics(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return mean and inverse standard deviation of each channel of this process's batch.

    Args:
        input: (batch, channels, ...).
        eps: added to the variance.
    """
    variance, mean = torch.var_mean(_accurate(input), _all_but_channels(input), correction=0)
    return mean, (variance + eps).rsqrt()


def gather_statistics(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Optional[Tensor],
    running_var: Optional[Tensor],
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return mean and inverse standard deviation of all processes' batches, and update the running ones.

    Args:
        input: (batch, channels, ...).
        mean: (processes, channels).
        invstd: (processes, channels).
        running_mean: (channels), updated in place.
        running_var: (channels), updated in place.
        momentum: of the running statistics.
        eps: that was added to the variances.
        counts: (processes), elements per channel in each process.
    """
    counts = counts.view(-1, 1).to(mean.dtype)
    total = counts.sum()
    joint_mean = (mean * counts).sum(0) / total
    variance = invstd.pow(-2) - eps
    joint_variance = ((variance + (mean - joint_mean) ** 2) * counts).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(joint_mean.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        unbiased = joint_variance * total / (total - 1)
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
    return joint_mean, (joint_variance + eps).rsqrt()


def elements(
    input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """Return the normalised batch.

    Args:
        input: (batch, channels, ...).
        weight: (channels).
        bias: (channels).
        mean: (channels).
        invstd: (channels).
        eps: in ``invstd`` already.
    """
    per_channel = _per_channel(input)
    output = (_accurate(input) - mean.view(per_channel)) * invstd.view(per_channel)
    if weight is not None:
        output = output * weight.view(per_channel)
    if bias is not None:
        output = output + bias.view(per_channel)
    return output.to(input.dtype)


def backward_reduce(
    grad_output: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Optional[Tensor],
    input_needs_grad: bool,
    weight_needs_grad: bool,
    bias_needs_grad: bool,
) -> tuple[Tensor, Tensor, Optional[Tensor], Optional[Tensor]]:
    """Return this process's part of the sums for the gradient of the input, and the parameters' gradients.

    The sums, per channel: of the output's gradient, and of that times the centred input.
    """
    channels = _all_but_channels(input)
    gradient = _accurate(grad_output)
    centred = _accurate(input) - mean.view(_per_channel(input))
    sum_gradient = gradient.sum(channels)
    sum_products = (gradient * centred).sum(channels)
    dtype = input.dtype if weight is None else weight.dtype
    grad_weight = (sum_products * invstd).to(dtype) if weight_needs_grad else None
    grad_bias = sum_gradient.to(dtype, copy=True) if bias_needs_grad else None
    return sum_gradient, sum_products, grad_weight, grad_bias


def backward_elements(
    grad_output: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Optional[Tensor],
    sum_gradient: Tensor,
    sum_products: Tensor,
    count: Tensor,
) -> Tensor:
    """Return the gradient of the input, from the sums of all processes.

    Args:
        grad_output: (batch, channels, ...).
        input: (batch, channels, ...).
        mean: (channels).
        invstd: (channels).
        weight: (channels).
        sum_gradient: (channels), from :func:`backward_reduce`, of all processes.
        sum_products: (channels), likewise.
        count: (processes), elements per channel in each process.
    """
    per_channel = _per_channel(input)
    total = count.sum()
    centred = _accurate(input) - mean.view(per_channel)
    slope = (invstd * invstd * sum_products / total).view(per_channel)
    gradient = _accurate(grad_output) - (sum_gradient / total).view(per_channel) - centred * slope
    gradient = gradient * invstd.view(per_channel)
    if weight is not None:
        gradient = gradient * weight.view(per_channel)
    return gradient.to(grad_output.dtype)


def _accurate(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _per_channel(tensor: Tensor) -> list[int]:
    return [1, tensor.shape[1]] + [1] * (tensor.dim() - 2)


def _all_but_channels(tensor: Tensor) -> list[int]:
    return [0, *range(2, tensor.dim())]
