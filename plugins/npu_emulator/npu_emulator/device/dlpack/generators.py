"""Random numbers: every device has an engine of its own, as on hardware, or all share that of the CPU.

The engines are the CPU's, because CPU kernels draw from them; only the attributes that a program reads say ``npu``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import torch

from npu_emulator import private_torch
from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.exchange import StandIn, exchange
from npu_emulator.private_torch import Generator as _Engine

__all__ = ["Generators", "NpuGenerator"]

#: By address of the engine: a generator that has been through torch's C++ comes back in another Python object.
_npu_engines: weakref.WeakValueDictionary[int, NpuGenerator] = weakref.WeakValueDictionary()


class NpuGenerator(_Engine):
    """An engine of the CPU whose device is an NPU.

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
        """Return the values for pickle: its device, and seed, offset and state as :class:`torch.Generator` has them."""
        _, _, state = super().__reduce__()
        return torch.Generator, (self._device,), state

    def __repr__(self) -> str:
        """Return how a generator of torch shows itself."""
        return f"<torch.Generator device={self._device} at {id(self):#x}>"


class SharedGenerator(NpuGenerator):
    """The generator of the CPU under the name of an NPU."""

    def get_state(self) -> torch.Tensor:
        """Return the state of the CPU's generator."""
        return torch.default_generator.get_state()

    def set_state(self, state: torch.Tensor) -> private_torch.Generator:
        """Set the state of the CPU's generator."""
        torch.default_generator.set_state(state)
        return self

    def manual_seed(self, seed: int) -> private_torch.Generator:
        """Seed the CPU's generator."""
        torch.default_generator.manual_seed(seed)
        return self

    def seed(self) -> int:
        """Seed the CPU's generator with a random number."""
        return torch.default_generator.seed()

    def initial_seed(self) -> int:
        """Return the seed of the CPU's generator."""
        return torch.default_generator.initial_seed()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the values from which pickle makes a separate generator in the same state."""
        return self.clone_state().__reduce__()


class Generators:
    """The default generators of the devices.

    Args:
        devices: the devices.
        share: they are all the generator of the CPU.
    """

    def __init__(self, devices: Devices, *, share: bool = False) -> None:
        self._devices = devices
        self._lock = threading.RLock()
        self._share = share
        kind = SharedGenerator if share else NpuGenerator
        self.defaults = tuple(kind(torch.device("npu", index)) for index in range(devices.count))
        if share:
            return
        # As on hardware, where a seed that was set before the device is initialised counts for it too.
        seed = torch.initial_seed()
        for generator in self.defaults:
            generator.manual_seed(seed)

    def install(self) -> None:
        """Let ``torch.Generator`` make generators of NPUs too; torch calls the backend's allocator in C++ only."""
        devices = self._devices

        class _Type(StandIn, type(_Engine)):  # type: ignore[misc]
            """For torch's generator has a metaclass already."""

        class Generator(_Engine, metaclass=_Type):
            __doc__ = _Engine.__doc__

            def __new__(cls, device: Any = "cpu") -> private_torch.Generator:
                device = torch.device(device)
                if cls is not Generator:
                    return super().__new__(cls, device)
                if device.type != "npu":
                    return _Engine(device)
                return NpuGenerator(torch.device("npu", devices.resolve(device)))

        # Not in torch._C, by which name torch._dynamo asks whether a generator is of exactly that type.
        exchange(Generator, torch)

    def engine(self, generator: Optional[private_torch.Generator], index: int) -> private_torch.Generator:
        """Return the engine that an operator on a device draws from.

        Args:
            generator: the argument that the program passed.
            index: the device.

        Raises:
            RuntimeError: the generator is not an NPU's.
        """
        if generator is None:
            generator = self.defaults[index]
        if generator._cdata not in _npu_engines:
            raise RuntimeError(f"Expected a 'npu' device type for generator but found '{generator.device.type}'")
        known = _npu_engines[generator._cdata]
        return torch.default_generator if isinstance(known, SharedGenerator) else generator

    @contextmanager
    def in_place_of_cpu(self, index: int) -> Iterator[None]:
        """Let kernels that take no generator draw from a device's engine within the block.

        One block at a time, in the whole process, because the CPU's engine is exchanged.
        """
        engine, cpu = self.defaults[index], torch.default_generator
        if self._share:
            yield
            return
        with self._lock:
            saved = cpu.get_state()
            cpu.set_state(engine.get_state())
            try:
                yield
            finally:
                engine.set_state(cpu.get_state())
                cpu.set_state(saved)
