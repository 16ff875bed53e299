"""Random calls of the focal loss on sigmoids.

mmcv has no operator for the CPU. The reference is the definition (Lin et al., arXiv:1708.02002, equation 5).
"""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import drawing


def definition(logit: Any, target: Any, gamma: float, alpha: float, weight: Any = None, reduction: str = "mean") -> Any:
    """Compute the loss by its definition, in float64.

    Args:
        logit: (samples, classes).
        target: (samples,), the class of each sample; the number of classes for background.
        gamma: how much less well-classified samples count.
        alpha: weight of the target class.
        weight: (classes,), weight of the samples of each class.
        reduction: ``none``, ``mean`` (over samples) or ``sum``.

    Returns:
        (samples, classes), or a scalar, of the dtype of ``logit``.
    """
    import torch

    is_target = target.unsqueeze(1) == torch.arange(logit.shape[1], device=logit.device)
    probability = logit.double().sigmoid()
    probability = torch.where(is_target, probability, 1 - probability)
    balance = torch.where(is_target, alpha, 1 - alpha)
    loss = -balance * (1 - probability) ** gamma * probability.log()
    if weight is not None:
        loss = loss * weight.double()[target].unsqueeze(1)
    if reduction != "none":
        loss = loss.sum() / (len(logit) if reduction == "mean" else 1)
    return loss.to(logit.dtype)


def called(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call of mmcv's function."""
    from mmcv.ops.focal_loss import sigmoid_focal_loss

    samples, classes = size.draw(rng, small=(1, 40), typical=(5000, 20000)), rng.choice((1, 3, 20, 80))
    weight = rng.choice((None, drawing.uniform(rng, 0.1, 2.0, classes)))
    most = classes if weight is None else classes - 1  # a weight says nothing of the background
    arguments = [
        (2 * drawing.normal(rng, samples, classes)).requires_grad_(),
        drawing.integers(rng, 0, most, samples),
        rng.choice((0.5, 1.0, 2.0, 3.0)),
        rng.choice((0.25, 0.5, 0.9)),
        weight,
        rng.choice(("none", "mean", "sum")),
    ]
    return pc.Case(sigmoid_focal_loss, arguments, reference=definition)
