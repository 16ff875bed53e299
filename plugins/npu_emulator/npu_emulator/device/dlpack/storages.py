"""``torch.UntypedStorage`` for NPUs: torch allocates storages in C++, past all kernels."""

from __future__ import annotations

from typing import Any

import torch

from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.errors import NotEmulated

__all__ = ["install"]


def install(devices: Devices) -> None:
    """Let ``torch.UntypedStorage(size, device="npu")`` allocate, and make resizing a storage raise.

    ``torch.load``, ``copy.deepcopy`` and ``storage.npu()`` allocate in this way.
    """
    original_new = torch.UntypedStorage.__new__
    original_resize = torch.UntypedStorage.resize_

    def new(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> torch.UntypedStorage:
        if device is None:
            return original_new(cls, *args, **kwargs)
        device = torch.device(device)
        if device.type != "npu":
            return original_new(cls, *args, device=device, **kwargs)
        content = args[0] if args else kwargs.get("size", 0)
        if isinstance(content, int):
            return torch.empty(content, dtype=torch.uint8, device=device).untyped_storage()
        return torch.tensor(list(content), dtype=torch.uint8, device=device).untyped_storage()

    def resize_(self: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        if self.device.type != "npu":
            return original_resize(self, size)
        raise NotEmulated(
            f"npu_emulator: the Python core cannot resize a storage on {self.device} "
            f"(from {self.nbytes()} to {size} bytes). Use the compiled core: python -m npu_emulator build."
        )

    torch.UntypedStorage.__new__ = staticmethod(new)
    torch.UntypedStorage.resize_ = resize_
