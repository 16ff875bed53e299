"""Copies between devices, and numbers read from tensors: all memory is the host's, so these are the CPU's copies."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from npu_emulator.device.dlpack.accounting import Accounting
from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.plans import SPARSE
from npu_emulator.device.dlpack.registry import Registry, operator_named
from npu_emulator.device.dlpack.retagging import cpu_alias, dense_npu_alias
from npu_emulator.private_torch import DispatchKey

__all__ = ["Copies"]

#: Memory formats that a program may set for a copy: torch_npu refuses others.
_FORMATS = (None, torch.contiguous_format, torch.preserve_format)


class Copies:
    """The kernels that copy.

    Args:
        devices: the devices.
        accounting: told of every new tensor.
    """

    def __init__(self, devices: Devices, accounting: Accounting) -> None:
        self._devices = devices
        self._accounting = accounting

    def register(self, registry: Registry) -> None:
        """Register the kernels.

        ``copy_`` itself too, although a fallback could serve it: torch resolves the conjugate bit of its arguments by
        calling ``copy_``.
        """
        registry.kernel("copy_", copy_to)
        registry.kernel("_copy_from", copy_from)
        registry.kernel("_copy_from_and_resize", copy_from_and_resize)
        registry.kernel("_to_copy", self.copy)
        for key in ("PrivateUse1", "AutogradPrivateUse1"):
            registry.kernel("contiguous", contiguous, key)
        registry.kernel("_local_scalar_dense", number_in)
        registry.kernel("record_stream", record_stream)
        registry.kernel("copy_", torch.ops.aten.copy_sparse_to_sparse_, "SparsePrivateUse1")
        # It replaces indices and values by copies that it asks the dispatcher for.
        registry.redispatch("copy_sparse_to_sparse_", "SparsePrivateUse1", SPARSE)
        for name in ("to.device", "to.dtype_layout"):
            move = self._moving(name)
            for backend in ("CPU", "PrivateUse1", "SparseCPU", "SparsePrivateUse1"):
                registry.kernel(name, move, backend)
            for backend in ("AutogradCPU", "AutogradPrivateUse1"):
                registry.kernel(name, move, backend)

    def copy(
        self,
        tensor: Tensor,
        *,
        dtype: Optional[torch.dtype] = None,
        layout: Optional[torch.layout] = None,
        device: Optional[torch.device] = None,
        pin_memory: Optional[bool] = None,
        non_blocking: bool = False,
        memory_format: Optional[torch.memory_format] = None,
    ) -> Tensor:
        """Return a copy of an NPU tensor on any device, as :meth:`torch.Tensor.to`.

        Never through pinned memory, which torch would take for a copy to the CPU that does not block: every copy has
        been made when this returns.
        """
        if memory_format not in _FORMATS:
            raise RuntimeError(
                "Only contiguous_format or preserve_format is supported. (emulated as the hardware does it)"
            )
        device = tensor.device if device is None else device
        copy = torch.ops.aten._to_copy(cpu_alias(tensor), dtype=dtype, layout=layout, memory_format=memory_format)
        if device.type == "cpu":
            return copy
        if device.type != "npu" or copy.layout is not torch.strided:
            return copy.to(device)
        index = self._devices.resolve(device)
        alias = dense_npu_alias(copy, index)
        self._accounting.add(alias, index)
        return alias

    def _moving(self, name: str) -> Callable[..., Tensor]:
        """Return the kernel of ``Tensor.to`` that resolves ``"npu"`` to the current device before torch does.

        torch asks the device guard, and a guard written in Python answers that the current device is the first. So
        the overloads that take a device are intercepted, of CPU tensors too.
        """
        composite, key = operator_named(name)._op_dk, DispatchKey.CompositeImplicitAutograd
        current = self._devices.current

        def move(*args: Any, **kwargs: Any) -> Tensor:
            if len(args) > 1:
                if _is_unresolved(args[1]):
                    args = (args[0], torch.device("npu", current()), *args[2:])
            elif _is_unresolved(kwargs.get("device")):
                kwargs["device"] = torch.device("npu", current())
            return composite(key, *args, **kwargs)

        return move


def contiguous(tensor: Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> Tensor:
    """Return a contiguous copy of a tensor that is not contiguous; torch_npu refuses other memory formats."""
    if memory_format not in _FORMATS:
        raise RuntimeError(
            "NPU contiguous operator only supported contiguous memory format. (emulated as the hardware does it)"
        )
    return torch.ops.aten.contiguous.default._op_dk(
        DispatchKey.CompositeImplicitAutograd, tensor, memory_format=memory_format
    )


def copy_to(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy into a tensor, where one of both is on an NPU."""
    _on_cpu(target).copy_(_on_cpu(source))
    return target


def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy from a tensor, where one of both is on an NPU."""
    return copy_to(target, source)


def copy_from_and_resize(source: Tensor, target: Tensor) -> Tensor:
    """Copy from a tensor into one that takes its shape."""
    if source.shape != target.shape:
        target.resize_(source.shape)
    return copy_to(target, source)


def number_in(tensor: Tensor) -> Any:
    """Return the only number of a tensor."""
    return cpu_alias(tensor).item()


def record_stream(tensor: Tensor, stream: torch.Stream) -> None:
    """Do nothing: kernels are done when they return, so no stream ever reads memory later."""


def _on_cpu(tensor: Tensor) -> Tensor:
    return cpu_alias(tensor) if tensor.get_device() >= 0 else tensor


def _is_unresolved(device: Optional[torch.device]) -> bool:
    return device is not None and device.index is None and device.type == "npu"
