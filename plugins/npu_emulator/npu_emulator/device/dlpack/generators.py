"""Random numbers: every device has an engine of its own, as on hardware.

The engines are the CPU's, because CPU kernels draw from them; only what a program sees of them says ``npu``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import torch
from torch._C import Generator as _Engine

from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.exchange import StandIn, exchange

__all__ = ["Generators", "NpuGenerator"]

#: By address of the engine: a generator that has been through torch's C++ comes back in another Python object.
_npu_engines: weakref.WeakValueDictionary[int, NpuGenerator] = weakref.WeakValueDictionary()


class NpuGenerator(_Engine):
    """An engine of the CPU that says it is on an NPU.

    Args:
        device: an NPU, with its index.
    """

    def __new__(cls, device: torch.device) -> NpuGenerator:
        """Make the engine."""
        return super().__new__(cls, "cpu")

    def __init__(self, device: torch.device) -> None:
        self._device = device
        _npu_engines[self._cdata] = self

    @property
    def device(self) -> torch.device:
        """The device that the generator is for."""
        return self._device

    def clone_state(self) -> NpuGenerator:
        """Return a generator for the same device that draws the same numbers."""
        clone = NpuGenerator(self._device)
        clone.set_state(self.get_state())
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickles it: its device, and seed, offset and state as :class:`torch.Generator` has them."""
        _, _, state = super().__reduce__()
        return torch.Generator, (self._device,), state

    def __repr__(self) -> str:
        """Return how a generator of torch shows itself."""
        return f"<torch.Generator device={self._device} at {id(self):#x}>"


class Generators:
    """The default generators of the devices.

    Args:
        devices: the devices.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._lock = threading.RLock()
        self.defaults = tuple(NpuGenerator(torch.device("npu", index)) for index in range(devices.count))
        # As on hardware, where a seed that was set before the device is initialised counts for it too.
        seed = torch.initial_seed()
        for generator in self.defaults:
            generator.manual_seed(seed)

    def install(self) -> None:
        """Let ``torch.Generator`` make generators of NPUs too; torch asks the backend's allocator in C++ only."""
        devices = self._devices

        class _Type(StandIn, type(_Engine)):  # type: ignore[misc]
            """For torch's generator has a metaclass already."""

        class Generator(_Engine, metaclass=_Type):
            __doc__ = _Engine.__doc__

            def __new__(cls, device: Any = "cpu") -> torch._C.Generator:
                device = torch.device(device)
                if cls is not Generator:
                    return super().__new__(cls, device)
                if device.type != "npu":
                    return _Engine(device)
                return NpuGenerator(torch.device("npu", devices.resolve(device)))

        # Not in torch._C, by which name torch._dynamo asks whether a generator is of exactly that type.
        exchange(Generator, torch)

    def engine(self, generator: Optional[torch._C.Generator], index: int) -> torch._C.Generator:
        """Return the engine that an operator on a device draws from.

        Args:
            generator: what the program passed.
            index: the device.

        Raises:
            RuntimeError: the generator is not an NPU's.
        """
        if generator is None:
            return self.defaults[index]
        if generator._cdata not in _npu_engines:
            raise RuntimeError(f"Expected a 'npu' device type for generator but found '{generator.device.type}'")
        return generator

    @contextmanager
    def in_place_of_cpu(self, index: int) -> Iterator[None]:
        """Let kernels that take no generator draw from a device's engine within the block.

        One block at a time, in the whole process: the CPU's engine is what is exchanged.
        """
        engine, cpu = self.defaults[index], torch.default_generator
        with self._lock:
            saved = cpu.get_state()
            cpu.set_state(engine.get_state())
            try:
                yield
            finally:
                engine.set_state(cpu.get_state())
                cpu.set_state(saved)
