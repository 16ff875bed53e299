"""Convolutions: torch sends those of an unknown device to operators that it leaves to that device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor

from npu_emulator.device.interface import Core
from npu_emulator.device.kernels.library import KernelLibrary

__all__ = ["register"]


def register(library: KernelLibrary, core: Core) -> None:
    """Register convolution and its derivative, computed by the CPU's on aliases."""
    kernels = Convolution(core)
    library.kernel("convolution_overrideable", kernels.forward)
    library.kernel("convolution_backward_overrideable", kernels.backward)


class Convolution:
    """The kernels.

    Args:
        core: makes the aliases.
    """

    def __init__(self, core: Core) -> None:
        self._on_cpu = core.alias_on_cpu
        self._on_npu = core.alias_on_npu

    def forward(
        self,
        input: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[int],
        groups: int,
    ) -> Tensor:
        """Return the convolution, as ``aten::convolution``."""
        _check_devices(input, weight, bias)
        output = torch.ops.aten.convolution(
            self._on_cpu(input),
            self._on_cpu(weight),
            None if bias is None else self._on_cpu(bias),
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
        )
        return self._on_npu(output, input.get_device())

    def backward(
        self,
        grad_output: Tensor,
        input: Tensor,
        weight: Tensor,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[int],
        groups: int,
        output_mask: Sequence[bool],
    ) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of input, weight and bias, as ``aten::convolution_backward``."""
        _check_devices(grad_output, input, weight)
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        gradients = torch.ops.aten.convolution_backward(
            self._on_cpu(grad_output),
            self._on_cpu(input),
            self._on_cpu(weight),
            [channels],
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            output_mask,
        )
        index = input.get_device()
        return tuple(None if gradient is None else self._on_npu(gradient, index) for gradient in gradients)


def _check_devices(first: Tensor, *others: Optional[Tensor]) -> None:
    for other in others:
        if other is not None and other.device != first.device:
            # In torch's words: programs and tests look for them.
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {first.device} and "
                f"{other.device}! (when checking arguments of aten.convolution)"
            )
