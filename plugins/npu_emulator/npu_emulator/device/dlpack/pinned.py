"""Pinned memory: decides which CPU tensors count as pinned.

All memory is the host's, so pinning copies, as on hardware, and remembers the copy. Memory that torch itself would
pin while allocating (``torch.empty(..., pin_memory=True)``) needs an allocator in C++, which Python cannot give it:
torch raises ``NotImplementedError`` and names ``getPinnedMemoryAllocator``. ``torch.empty(...).pin_memory()`` does the
same without.
"""

from __future__ import annotations

import weakref
from typing import Any, Optional

import torch
from torch import Tensor

from npu_emulator.device.dlpack.registry import Registry

__all__ = ["register"]


def register(registry: Registry) -> None:
    """Register the kernels, which are those of CPU tensors."""
    pinned: dict[int, weakref.ref[Any]] = {}

    def pin(tensor: Tensor, device: Optional[torch.device] = None) -> Tensor:
        copy = tensor.clone(memory_format=torch.preserve_format)
        storage = copy.untyped_storage()
        address = storage.data_ptr()
        if address:
            pinned[address] = weakref.ref(storage, lambda _: pinned.pop(address, None))
        return copy

    def is_pinned(tensor: Tensor, device: Optional[torch.device] = None) -> bool:
        return tensor.untyped_storage().data_ptr() in pinned

    registry.kernel("_pin_memory", pin, "CPU")
    registry.kernel("is_pinned", is_pinned, "CPU")
