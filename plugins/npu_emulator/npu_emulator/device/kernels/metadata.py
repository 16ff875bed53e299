"""The checks that torch makes of tensors before it exchanges the contents of a parameter."""

from __future__ import annotations

from torch import Tensor

from npu_emulator.device.interface import Core
from npu_emulator.device.kernels.library import KernelLibrary

__all__ = ["register"]


def register(library: KernelLibrary, core: Core) -> None:
    """Register the question whether ``module.to("npu")`` may keep the parameter objects."""
    library.kernel("_has_compatible_shallow_copy_type", has_compatible_type)


def has_compatible_type(tensor: Tensor, source: Tensor) -> bool:
    """Return whether ``tensor.data = source`` is possible: between dense tensors of any devices.

    torch compares dispatch keys and finds those of CPU and NPU different, whereupon ``Module.to`` makes new
    parameters and optimizers keep the old.
    """
    return tensor.layout == source.layout
