"""The dtype in which a reference computes."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["accumulated", "accumulation_dtype"]


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for the half-width types, as the fused kernels of the device, and ``dtype`` itself otherwise."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def accumulated(tensor: Tensor) -> Tensor:
    """Return a tensor in the dtype to compute in."""
    return tensor.to(accumulation_dtype(tensor.dtype))
