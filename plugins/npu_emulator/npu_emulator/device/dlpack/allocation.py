"""Kernels that create and resize tensors, and kernels that only create a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from npu_emulator.device.dlpack.accounting import Accounting
from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.plans import DENSE
from npu_emulator.device.dlpack.registry import Registry, operator_named
from npu_emulator.device.dlpack.retagging import cpu_alias, dense_npu_alias

__all__ = ["Allocator"]

_VIEWS = (
    "as_strided",
    "view",
    "_reshape_alias",
    "unfold",
    "view_as_real",
    "view_as_complex",
    "set_.source_Storage_storage_offset",
    "set_.source_Tensor",
    "is_set_to",
)
_set = operator_named("set_.source_Storage_storage_offset")._handle.redispatch_boxed


class Allocator:
    """Makes tensors on devices.

    Args:
        devices: the devices.
        accounting: told of every new tensor.
    """

    def __init__(self, devices: Devices, accounting: Accounting) -> None:
        self._devices = devices
        self._accounting = accounting

    def register(self, registry: Registry) -> None:
        """Register the kernels."""
        registry.kernel("empty.memory_format", self.empty)
        registry.kernel("empty_strided", self.empty_strided)
        registry.kernel("_efficientzerotensor", self.zeros)
        registry.kernel("resize_", self.resize)
        registry.kernel("set_", self.set_to_nothing)
        registry.kernel("set_.source_Storage", set_to_storage)
        for name in _VIEWS:
            # They write sizes, strides and an offset: the CPU's kernels do that to a tensor of any device.
            registry.redispatch(name, "PrivateUse1", DENSE)

    def empty(
        self,
        size: Sequence[int],
        *,
        dtype: Optional[torch.dtype] = None,
        layout: Optional[torch.layout] = None,
        device: Optional[torch.device] = None,
        pin_memory: Optional[bool] = None,
        memory_format: Optional[torch.memory_format] = None,
    ) -> Tensor:
        """Return a new tensor, as :func:`torch.empty`."""
        if pin_memory:
            raise _only_cpu_is_pinned(device)
        memory_format = torch.contiguous_format if memory_format is None else memory_format
        return self._adopt(torch.empty(size, dtype=dtype, device="cpu", memory_format=memory_format), device)

    def empty_strided(
        self,
        size: Sequence[int],
        stride: Sequence[int],
        *,
        dtype: Optional[torch.dtype] = None,
        layout: Optional[torch.layout] = None,
        device: Optional[torch.device] = None,
        pin_memory: Optional[bool] = None,
    ) -> Tensor:
        """Return a new tensor, as :func:`torch.empty_strided`."""
        if pin_memory:
            raise _only_cpu_is_pinned(device)
        return self._adopt(torch.empty_strided(size, stride, dtype=dtype, device="cpu"), device)

    def zeros(
        self,
        size: Sequence[int],
        *,
        dtype: Optional[torch.dtype] = None,
        layout: Optional[torch.layout] = None,
        device: Optional[torch.device] = None,
        pin_memory: Optional[bool] = None,
    ) -> Tensor:
        """Return zeros that have memory: the zeros of forward-mode gradients have none, which could not be aliased."""
        return self._adopt(torch.zeros(size, dtype=dtype, device="cpu"), device)

    def resize(
        self, tensor: Tensor, size: Sequence[int], *, memory_format: Optional[torch.memory_format] = None
    ) -> Tensor:
        """Resize a tensor in place, as :meth:`torch.Tensor.resize_`.

        Where its memory is too small the tensor moves to new memory, which other tensors that shared the old do not
        see. (On hardware they do: there the storage itself grows.)
        """
        if memory_format is torch.preserve_format:
            raise RuntimeError("Unsupported memory format: preserve_format")
        shaped = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format)
        offset, storage = tensor.storage_offset(), tensor.untyped_storage()
        needed = (offset + shaped.numel()) * tensor.element_size() if shaped.numel() else 0
        if needed > storage.nbytes():
            grown = torch.zeros(needed, dtype=torch.uint8, device="cpu")
            if storage.nbytes():
                grown[: storage.nbytes()].copy_(cpu_alias(_bytes_of(storage)))
            storage = self._adopt(grown, tensor.device).untyped_storage()
        _set(DENSE, tensor, storage, offset, list(size), shaped.stride())
        return tensor

    def set_to_nothing(self, tensor: Tensor) -> Tensor:
        """Leave a tensor without memory, as :meth:`torch.Tensor.set_` without arguments."""
        nothing = self._adopt(torch.empty(0, dtype=tensor.dtype, device="cpu"), tensor.device)
        return _set(DENSE, tensor, nothing.untyped_storage(), 0, [0], [1])

    def _adopt(self, tensor: Tensor, device: Optional[torch.device]) -> Tensor:
        index = self._devices.resolve(device)
        alias = dense_npu_alias(tensor, index)
        self._accounting.add(alias, index)
        return alias


def set_to_storage(tensor: Tensor, storage: torch.UntypedStorage) -> Tensor:
    """Let a tensor be all of a storage, as :meth:`torch.Tensor.set_` with one."""
    return _set(DENSE, tensor, storage, 0, [storage.nbytes() // tensor.element_size()], [1])


def _bytes_of(storage: torch.UntypedStorage) -> Tensor:
    everything = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return _set(DENSE, everything, storage, 0, [storage.nbytes()], [1])


def _only_cpu_is_pinned(device: Any) -> RuntimeError:
    """Return torch's error, in its words."""
    return RuntimeError(f"Only dense CPU tensors can be pinned, found device {device}")
