"""Random numbers on the devices: a generator each, which neither the CPU nor another device shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

import torch
from torch import Generator, Tensor

from npu_emulator import device as emulated
from npu_emulator.torch_npu.npu import _initialization
from npu_emulator.torch_npu.npu._utils import valid_device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _generator(device: Union[int, str, torch.device, None]) -> Generator:
    _initialization._lazy_init()
    return emulated.active().default_generator(valid_device_index(device))


def _generators() -> tuple[Generator, ...]:
    core = emulated.active()
    return tuple(core.default_generator(index) for index in range(core.device_count()))


def get_rng_state(device: Union[int, str, torch.device] = "npu") -> Tensor:
    """Return the state of a device's generator, a ``ByteTensor`` on the CPU."""
    return _generator(device).get_state()


def set_rng_state(new_state: Tensor, device: Union[int, str, torch.device] = "npu") -> None:
    """Set the state of a device's generator to one that :func:`get_rng_state` returned."""
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the states of the generators of all devices."""
    return [generator.get_state() for generator in _generators()]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of the generators of the first devices, one for each state."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices."""
    for generator in _generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the generator of the current device with a number that nobody knows."""
    _generator(None).seed()


def seed_all() -> None:
    """Seed the generators of all devices with one number that nobody knows."""
    generators = _generators()
    if generators:
        manual_seed_all(generators[0].seed())


def initial_seed() -> int:
    """Return the seed of the generator of the current device."""
    return _generator(None).initial_seed()
