"""Gradients of a plain PyTorch function, for the ``backward`` of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

import torch
from torch import Tensor


def gradients(function: Callable[..., Tensor], inputs: Sequence[Tensor], grad_output: Tensor) -> tuple[Tensor, ...]:
    """Differentiate ``function(*inputs)``, which is computed once more; that costs little compared with its derivative.

    Args:
        function: differentiable PyTorch code.
        inputs: floating-point tensors, one per argument.
        grad_output: gradient with respect to the function's result.

    Returns:
        One gradient per input, in order.
    """
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        output = function(*leaves)
    return torch.autograd.grad(output, leaves, grad_output)
