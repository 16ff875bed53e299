"""Focal losses, as mmcv 2.1.0 defines them.

Source: ``{sigmoid,softmax}_focal_loss_cuda_kernel.cuh`` in ``mmcv/ops/csrc/common/cuda``.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from npu_emulator.formulas.differentiation import gradients
from npu_emulator.formulas.focal_loss import sigmoid_focal_loss

__all__ = [
    "sigmoid_focal_loss_backward",
    "sigmoid_focal_loss_forward",
    "softmax_focal_loss_backward",
    "softmax_focal_loss_forward",
]


def sigmoid_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write the loss of each sample and class to ``output``.

    Args:
        input: (samples, classes), logits.
        target: (samples,), the class of each; the number of classes for background.
        weight: (classes,), weights of the samples of each class, or empty.
        output: (samples, classes).
        gamma: how much less well-classified samples count.
        alpha: weight of the target class; all others have 1 - alpha.
    """
    output.copy_(sigmoid_focal_loss(input, target, weight if weight.numel() else None, gamma, alpha))


def sigmoid_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    """Write the derivative of each loss to ``grad_input``; arguments as for the forward pass."""
    loss = partial(
        sigmoid_focal_loss, target=target, weight=weight if weight.numel() else None, gamma=gamma, alpha=alpha
    )
    (gradient,) = gradients(loss, (input,), torch.ones_like(input))
    grad_input.copy_(gradient)


def softmax_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write the loss of each sample to ``output``.

    Args:
        input: (samples, classes), probabilities.
        target: (samples,), the class of each; a negative one has no loss.
        weight: (classes,), weights of the samples of each class, or empty.
        output: (samples,).
        gamma: how much less well-classified samples count.
        alpha: factor of the loss.
    """
    p = _of_target(input, target)
    output.copy_(_weighted(-alpha * (1 - p) ** gamma * _log(p), target, weight))


def softmax_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, buff: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    """Write the gradient with respect to the logits to ``grad_input``, and the factor of each sample to ``buff``."""
    p = _of_target(input, target)
    factor = alpha * (-((1 - p) ** gamma) + gamma * (1 - p) ** (gamma - 1) * p * _log(p))
    buff.copy_(_weighted(factor, target, weight))
    is_target = target.unsqueeze(1) == torch.arange(input.shape[1])
    grad_input.copy_(buff.unsqueeze(1) * (is_target.to(input.dtype) - input))


def _log(probability: Tensor) -> Tensor:
    return probability.clamp(min=torch.finfo(torch.float32).tiny).log()


def _of_target(input: Tensor, target: Tensor) -> Tensor:
    return input.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)


def _weighted(loss: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    loss = torch.where(target >= 0, loss, torch.zeros_like(loss))
    return loss * weight[target.clamp(min=0)] if weight.numel() else loss
