"""The core in Python, behind the interface that the rest of the emulator uses."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor
from torch.utils import backend_registration

from npu_emulator import private_torch
from npu_emulator.device.dlpack import (
    accelerator,
    autocast,
    data_parallel,
    guard,
    pinned,
    retagging,
    sparse,
    storages,
    streams,
)
from npu_emulator.device.dlpack.accounting import Accounting
from npu_emulator.device.dlpack.allocation import Allocator
from npu_emulator.device.dlpack.copies import Copies
from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.fallback import Fallback
from npu_emulator.device.dlpack.generators import Generators
from npu_emulator.device.dlpack.plans import DENSE, SPARSE
from npu_emulator.device.dlpack.registry import Registry, operator_named
from npu_emulator.device.dlpack.retagging import cpu_alias, npu_alias
from npu_emulator.device.interface import Memory

__all__ = ["DlpackCore"]

#: The real device has no quantized tensors either; torch would make casts to them otherwise.
_UNSUPPORTED = [torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4]


class DlpackCore:
    """Implements :class:`npu_emulator.device.interface.Core`, whose docstrings hold here."""

    name = "python"

    def start(self, module: ModuleType, devices: int, *, share_generator: bool = False) -> None:
        """Register everything with torch. Once per process."""
        self._devices = Devices(devices)
        self._accounting = Accounting(devices)
        backend_registration.rename_privateuse1_backend("npu")
        backend_registration.generate_methods_for_privateuse1_backend(for_storage=True, unsupported_dtype=_UNSUPPORTED)
        # As torch.Tensor.cuda: lazy modules may be moved before their parameters have shapes.
        private_torch.allowed_methods.append(torch.Tensor.npu)
        private_torch.register_device_module("npu", module)
        self._kept = guard.install()
        self._generators = Generators(self._devices, share=share_generator)
        self._generators.install()
        self._registry = Registry()
        self._register_kernels(self._registry)
        autocast.register()
        storages.install(self._devices)
        streams.install(self._devices)
        accelerator.install(self._devices, self._accounting, module)
        data_parallel.install()

    def _register_kernels(self, registry: Registry) -> None:
        dense = Fallback(DENSE, self._devices, self._accounting, self._generators)
        registry.fallback(dense, "PrivateUse1")
        registry.fallback(Fallback(SPARSE, self._devices, self._accounting, self._generators), "SparsePrivateUse1")
        registry.fallback(sparse.refuse_compressed, "SparseCsrPrivateUse1")
        for name in _outranked():
            registry.kernel(name, dense.kernel(operator_named(name)))
        Allocator(self._devices, self._accounting).register(registry)
        Copies(self._devices, self._accounting).register(registry)
        sparse.register(registry)
        pinned.register(registry)

    def device_count(self) -> int:
        """Return how many devices there are."""
        return self._devices.count

    def current_device(self) -> int:
        """Return the index of this thread's current device."""
        return self._devices.current()

    def set_device(self, index: int) -> None:
        """Make a device this thread's current one."""
        self._devices.select(index)

    def alias_on_cpu(self, tensor: Tensor) -> Tensor:
        """Return a CPU tensor with the memory of an NPU tensor."""
        return cpu_alias(tensor)

    def alias_on_npu(self, tensor: Tensor, index: int) -> Tensor:
        """Return an NPU tensor with the memory of a CPU tensor."""
        self._devices.check(index)
        alias = npu_alias(tensor, index)
        if alias.layout is torch.strided:
            self._accounting.add(alias, index)
        return alias

    def memory(self, index: int) -> Memory:
        """Return the figures of the memory of a device."""
        return self._accounting.memory(index)

    def reset_peak_memory(self, index: int) -> None:
        """Set the peak to the memory that is allocated now."""
        self._accounting.reset_peak(index)

    def default_generator(self, index: int) -> private_torch.Generator:
        """Return the generator of a device."""
        return self._generators.defaults[index]

    def refuse(self, reason: str) -> None:
        """Refuse every use of the memory of a device from now on."""
        retagging.refuse(reason)


def _outranked() -> list[str]:
    """Return the operators that have a kernel for every device, which outranks a fallback, and a better one for CPUs.

    Structured operators would otherwise allocate and then call themselves with ``out=``: two Python kernels for one.
    The foreach operators would run tensor by tensor.
    """
    has_kernel = private_torch.dispatch_has_kernel_for_dispatch_key
    composites = ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    names = []
    for name in private_torch.dispatch_get_all_op_names():
        namespace, _, short = name.partition("::")
        if namespace != "aten":
            continue
        # Not copies, which may come from another device.
        foreach = short.startswith("_foreach_") and not short.startswith("_foreach_copy")
        if (foreach and has_kernel(name, "CompositeExplicitAutograd")) or (
            has_kernel(name, "CPU") and any(has_kernel(name, key) for key in composites)
        ):
            names.append(short)
    return names
