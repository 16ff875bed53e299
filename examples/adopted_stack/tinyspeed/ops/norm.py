"""A fused norm."""

from torch import Tensor, nn


def fused_rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Compute the norm in one kernel; a library for the hardware has it."""
    return nn.functional.rms_norm(x, weight.shape, weight, eps)
