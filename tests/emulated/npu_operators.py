"""Call emulated operators on a device with tensors of the CPU, and compare what comes back."""

from __future__ import annotations

from typing import Any

import torch
from comparing import to_npu
from torch import Tensor

from npu_emulator.torch_npu import ops

ops.register()


def on_device(device: str, name: str, *args: Any, **kwargs: Any) -> Any:
    """Return what ``torch_npu.<name>`` returns for copies of the arguments on a device."""
    args, kwargs = to_npu((args, kwargs), device)
    return ops.lookup(name)(*args, **kwargs)


def assert_on(device: str, actual: Tensor, expected: Tensor, *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Assert that a tensor is on a device and has the dtype, the shape and about the values of another."""
    assert actual.device.type == torch.device(device).type
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=rtol, atol=atol)


def doubles(*shape: int, seed: int = 0, requires_grad: bool = False) -> Tensor:
    """Return normally distributed float64, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_(requires_grad)


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of a weighted sum of a result, weighted so that no two elements count the same."""
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).reshape(output.shape).to(output.device)
    return torch.autograd.grad((output * weights).sum(), inputs)
