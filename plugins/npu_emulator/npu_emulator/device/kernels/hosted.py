"""Operators whose kernels in torch know the devices of torch only, or fewer types on the CPU than on accelerators.

``kaiser_window`` calls a kernel of the device itself, without the dispatcher (torch 2.13,
``aten/src/ATen/native/TensorFactories.cpp``): other devices end in an internal assert. ``histc`` takes half precision
and integers on accelerators, and neither on the CPU.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from npu_emulator.device.interface import Core
from npu_emulator.device.kernels.library import KernelLibrary

__all__ = ["register"]


def register(library: KernelLibrary, core: Core) -> None:
    """Register the kernels."""
    for overload in ("", ".periodic", ".beta"):
        library.kernel(f"kaiser_window{overload}", kaiser_window)
    histc = make_histc(core)
    library.kernel("histc", histc)
    library.kernel("histc.out", lambda *args, out, **kwargs: out.resize_(0).set_(histc(*args, **kwargs)))


def kaiser_window(
    *args: Any, device: Optional[torch.device] = None, pin_memory: Optional[bool] = None, **options: Any
) -> Tensor:
    """Return the window, computed on the CPU."""
    return torch.kaiser_window(*args, device="cpu", **options).to("npu" if device is None else device)


def make_histc(core: Core) -> Callable[..., Tensor]:
    """Return the kernel of ``torch.histc``, which counts integers and half precision as float64."""

    def histc(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        values = core.alias_on_cpu(tensor)
        counted = values if values.dtype in (torch.float32, torch.float64) else values.double()
        counts = torch.histc(counted, *args, **kwargs).to(values.dtype)
        return core.alias_on_npu(counts, tensor.get_device())

    return histc
