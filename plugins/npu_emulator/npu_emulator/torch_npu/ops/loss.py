"""Losses."""

from __future__ import annotations

from typing import Optional

from torch import Tensor
from torch.nn import functional

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops.precision import accumulated
from npu_emulator.torch_npu.ops.registry import operator

__all__ = ["npu_cross_entropy_loss", "npu_softmax_cross_entropy_with_logits"]


@operator("npu_softmax_cross_entropy_with_logits(Tensor input, Tensor labels) -> Tensor")
def npu_softmax_cross_entropy_with_logits(input: Tensor, labels: Tensor) -> Tensor:
    """Return the cross entropy of each row of logits with a distribution over the classes.

    Args:
        input: logits, shape (n, c).
        labels: the distributions, same shape; no gradient flows to them.

    Returns:
        Shape (n,).
    """
    log_probabilities = functional.log_softmax(accumulated(input), dim=-1)
    return -(accumulated(labels).detach() * log_probabilities).sum(dim=-1).to(input.dtype)


@operator(
    "npu_cross_entropy_loss(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean',"
    " int ignore_index=-100, float label_smoothing=0.0, float lse_square_scale_for_zloss=0.0,"
    " bool return_zloss=False) -> (Tensor, Tensor, Tensor, Tensor)",
    differentiable=(0,),
)
def npu_cross_entropy_loss(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
    return_zloss: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the cross entropy of logits with class indices; see :func:`torch.nn.functional.cross_entropy`.

    Args:
        input: logits, shape (n, c).
        target: class of each row, shape (n,), int64.
        weight: of each class, shape (c,), or ``None``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class of rows that do not count.
        label_smoothing: in [0, 1).
        lse_square_scale_for_zloss: 0; the device has no other.
        return_zloss: ``False``, likewise.

    Returns:
        The loss, of shape (n,) without reduction and (1,) with it; the logarithms of the probabilities; and two empty
        tensors.

    Raises:
        NotEmulated: a z-loss is asked for.
    """
    if lse_square_scale_for_zloss != 0 or return_zloss:
        raise NotEmulated("npu_cross_entropy_loss: the z-loss is not enabled on the device either; leave it out")
    logits = accumulated(input)
    weights = None if weight is None else weight.to(logits.dtype)
    loss = functional.cross_entropy(
        logits,
        target,
        weights,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    log_probabilities = functional.log_softmax(logits, dim=-1)
    return (
        loss.reshape(-1).to(input.dtype),
        log_probabilities.to(input.dtype),
        input.new_empty(0),
        input.new_empty(0),
    )
