"""Tensors to compute with."""

from __future__ import annotations

import torch
from torch import Tensor


def values(*shape: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the same normally distributed values in every run."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_(grad)
