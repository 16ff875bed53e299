"""Determinism for a part of a model, in its forward pass and its backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward"]


class _Switch(torch.autograd.Function):
    """Sets ``torch.use_deterministic_algorithms`` on the way forward, and the opposite on the way back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, enable: bool) -> Tensor:
        ctx.enable = enable
        torch.use_deterministic_algorithms(enable)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        torch.use_deterministic_algorithms(not ctx.enable)
        return gradient, None


def enable_deterministic_with_backward(tensor: Tensor) -> Tensor:
    """Demand deterministic operators from here on; the backward pass demands them up to here.

    Args:
        tensor: the input of the part of the model.

    Returns:
        The tensor to go on with.
    """
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor: Tensor) -> Tensor:
    """Demand them no longer; the backward pass demands them from here on.

    Args:
        tensor: the output of the part of the model.

    Returns:
        The tensor to go on with.
    """
    return _Switch.apply(tensor, False)
