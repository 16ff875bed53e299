"""Conjugation in place, whose kernel in torch only knows torch's own devices.

``conj_physical_`` of complex numbers calls the CPU's or CUDA's kernel itself instead of the operator
(``aten/src/ATen/native/UnaryOps.cpp``, torch 2.13): other devices end in an internal assert.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npu_emulator.device.interface import Core
from npu_emulator.device.kernels.library import KernelLibrary

__all__ = ["register"]


def register(library: KernelLibrary, core: Core) -> None:
    """Register the kernel."""
    library.kernel("conj_physical_", conj_physical_)


def conj_physical_(tensor: Tensor) -> Tensor:
    """Conjugate the elements of a tensor in place; real ones stay."""
    return torch.conj_physical(tensor, out=tensor) if tensor.is_complex() else tensor
