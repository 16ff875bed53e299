"""Compare kernels with independent sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# Of the largest expected value. Sums run in another order than in the sources.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 2e-14}


def assert_agree(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Check shapes, dtypes and values; a result that is zero everywhere would compare nothing."""
    assert len(actual) == len(expected)
    for number, (ours, theirs) in enumerate(zip(actual, expected)):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        largest = theirs.abs().max().item()
        assert largest > 0, f"result {number} is zero everywhere: nothing is compared"
        difference = (ours - theirs).abs().max().item()
        assert difference <= TOLERANCE[theirs.dtype] * largest, f"result {number}: {difference:.2e} of {largest:.2e}"


def output_and_gradients(function: Callable[..., Tensor], tensors: Sequence[Tensor], *rest: Any) -> list[Tensor]:
    """Run ``function(*tensors, *rest)`` and differentiate it with a fixed random gradient of the output."""
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    output = function(*leaves, *rest)
    grad_output = torch.randn(output.shape, dtype=output.dtype, generator=torch.Generator().manual_seed(1))
    return [output.detach(), *torch.autograd.grad(output, leaves, grad_output)]
