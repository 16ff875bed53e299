"""Runs a kernel for the CPU on the memory of NPU tensors."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

from npu_emulator.device import active, is_active

__all__ = ["call_on_host"]

#: The CPU kernels of mmcv compute in 32 and 64 bits, those for NPUs in 16 bits too.
_HALF = (torch.float16, torch.bfloat16)


def call_on_host(kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel with the host memory of NPU tensors; the tensors have the values that it writes to its arguments.

    Args:
        kernel: takes contiguous CPU tensors, and 32 bits where the tensors have 16.
        args, kwargs: the arguments of the call, some of them NPU tensors.

    Returns:
        The result of the kernel, a tensor of it on the NPU, and in 16 bits if it is floating and the arguments were.
    """
    loan = _Loan()
    with torch.no_grad():
        lent = [loan.lend(argument) for argument in args]
        result = kernel(*lent, **{name: loan.lend(argument) for name, argument in kwargs.items()})
        loan.settle()
        return loan.take_back(result)


class _Loan:
    """The NPU tensors of one call, lent to the host."""

    def __init__(self) -> None:
        self._copies: list[tuple[Tensor, Tensor, Tensor]] = []  # on the NPU, on the host, and what is lent
        self._device = 0
        self._half: Any = None

    def lend(self, argument: Any) -> Any:
        """Return the argument as the kernel takes it."""
        if not isinstance(argument, Tensor) or argument.device.type != "npu":
            return argument
        self._device = argument.device.index
        on_host = _on_host(argument.detach())
        shares_memory = is_active() and on_host.dtype not in _HALF and on_host.is_contiguous()
        if shares_memory:
            return on_host
        if on_host.dtype in _HALF:
            self._half = on_host.dtype
        copy = on_host.to(torch.float32 if on_host.dtype in _HALF else on_host.dtype, copy=True).contiguous()
        self._copies.append((argument.detach(), on_host, copy))
        return copy

    def settle(self) -> None:
        """Write back the copies that the kernel has changed."""
        for argument, before, copy in self._copies:
            result = copy.to(before.dtype)
            if not torch.equal(result, before):
                argument.copy_(result)

    def take_back(self, result: Any) -> Any:
        """Return the result of a kernel on the NPU."""
        if not isinstance(result, Tensor):
            return result
        if self._half is not None and result.is_floating_point():
            result = result.to(self._half)
        if is_active():
            return active().alias_on_npu(result.contiguous(), self._device)
        return result.to(f"npu:{self._device}")


def _on_host(tensor: Tensor) -> Tensor:
    """Return an NPU tensor on the CPU: its memory if the device is ours, a copy if it is that of the real torch_npu."""
    return active().alias_on_cpu(tensor) if is_active() else tensor.cpu()
