"""The formulas that a stack for other hardware replaces."""

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Return ``x`` divided by the root of the mean of its squares."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def swiglu(x: Tensor) -> Tensor:
    """Return the first half of ``x``, activated, times the second half."""
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """Return how much each position attends to each other one."""
    return (query @ key.transpose(-2, -1)).softmax(-1)
