"""Focal loss on sigmoids (mx-driving 26.2, ``mx_driving/ops/sigmoid_focal_loss.py``).

Paper: Lin et al., "Focal Loss for Dense Object Detection" (arXiv:1708.02002).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator.formulas.differentiation import gradients
from npu_emulator.formulas.focal_loss import sigmoid_focal_loss as focal_loss
from npu_emulator.mx_driving._counting import calls

REDUCTIONS = ("none", "mean", "sum")


class SigmoidFocalLossFunction(Function):
    """Focal loss. ``forward`` and ``backward`` also work on a ctx of somebody else, such as mmcv's Function."""

    @staticmethod
    def forward(
        ctx: Any,
        logit: Tensor,
        target: Tensor,
        gamma: float = 2.0,
        alpha: float = 0.25,
        weight: Optional[Tensor] = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Compute the loss of each sample and class.

        Args:
            ctx: the autograd context.
            logit: shape (n, classes); on the device float32.
            target: the class of each sample, or the number of classes for background; int64 of shape (n,).
            gamma: how much less well-classified samples count.
            alpha: weight of the target class; all others have 1 - alpha.
            weight: weight of the samples of each class, shape (classes,); there must be no background then.
            reduction: ``none``, ``mean`` (the sum divided by the number of samples, not of elements), or ``sum``.

        Returns:
            Shape (n, classes), or a scalar.

        Raises:
            ValueError: an argument has another form than described.
        """
        _check(logit, target, weight, reduction)
        calls["sigmoid_focal_loss"] += 1
        ctx.settings = {"gamma": float(gamma), "alpha": float(alpha), "reduction": reduction}
        ctx.save_for_backward(logit, target, weight)
        return _loss(logit, target=target, weight=weight, **ctx.settings)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of logit, and ``None`` for the five other arguments."""
        calls["sigmoid_focal_loss_backward"] += 1
        logit, target, weight = ctx.saved_tensors
        (grad,) = gradients(partial(_loss, target=target, weight=weight, **ctx.settings), (logit,), grad_output)
        return grad, None, None, None, None, None


# Bound as in mx_driving: positional arguments only.
sigmoid_focal_loss = SigmoidFocalLossFunction.apply


def _loss(
    logit: Tensor, target: Tensor, weight: Optional[Tensor], gamma: float, alpha: float, reduction: str
) -> Tensor:
    loss = focal_loss(logit, target, weight, gamma, alpha)
    if reduction == "mean":
        return loss.sum() / logit.shape[0]
    return loss.sum() if reduction == "sum" else loss


def _check(logit: Tensor, target: Tensor, weight: Optional[Tensor], reduction: str) -> None:
    kernel = "mx_driving.sigmoid_focal_loss"
    if logit.dim() != 2 or target.shape != logit.shape[:1] or target.dtype != torch.int64:
        raise ValueError(
            f"{kernel}: expected logit of shape (n, classes) and target of shape (n,) and int64, found "
            f"{tuple(logit.shape)}, {tuple(target.shape)} and {target.dtype}"
        )
    samples, classes = logit.shape
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ValueError(f"{kernel}: expected weight of shape ({classes},), found {tuple(weight.shape)}")
    if reduction not in REDUCTIONS:
        raise ValueError(f"{kernel}: expected a reduction of {', '.join(REDUCTIONS)}, found {reduction!r}")
    largest = classes if weight is None else classes - 1
    if samples and (int(target.min()) < 0 or int(target.max()) > largest):
        raise ValueError(
            f"{kernel}: expected targets from 0 to {largest}, found {int(target.min())} to {int(target.max())}"
        )
