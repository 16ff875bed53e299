"""The focal loss on sigmoids (Lin et al., arXiv:1708.02002), which mx_driving and builds of mmcv have a kernel for."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

__all__ = ["sigmoid_focal_loss"]


def sigmoid_focal_loss(logit: Tensor, target: Tensor, weight: Optional[Tensor], gamma: float, alpha: float) -> Tensor:
    """Return the loss of each sample and class.

    Args:
        logit: (samples, classes).
        target: (samples,), the class of each; the number of classes for background.
        weight: (classes,), weights of the samples of each class; there must be no background then.
        gamma: how much less well-classified samples count.
        alpha: weight of the target class; all others have 1 - alpha.
    """
    is_target = target.unsqueeze(1) == torch.arange(logit.shape[1], device=logit.device)
    probability = logit.sigmoid()
    positive = -alpha * (1 - probability) ** gamma * logsigmoid(logit)
    negative = -(1 - alpha) * probability**gamma * logsigmoid(-logit)
    loss = torch.where(is_target, positive, negative)
    return loss if weight is None else loss * weight[target].unsqueeze(1)
