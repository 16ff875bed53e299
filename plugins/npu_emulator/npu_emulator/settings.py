"""The settings of the emulation: core, number of devices, chip, source of random numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from npu_emulator.errors import EmulationError

__all__ = ["CORE", "CORES", "DEVICES", "RANDOM", "SOURCES", "STRICT_DTYPES", "Settings", "make_settings"]

#: Environment variables, for processes that nobody passes arguments to.
CORE = "NPU_EMULATOR_CORE"
DEVICES = "NPU_EMULATOR_DEVICES"
RANDOM = "NPU_EMULATOR_RANDOM"
#: Refuses dtypes that torch_npu's documentation leaves out, where it is 1.
STRICT_DTYPES = "NPU_EMULATOR_STRICT_DTYPES"

#: ``auto`` is the compiled core where it was built for this torch, else the one in Python.
CORES = ("auto", "native", "python")
#: Where devices draw random numbers from: generators of their own, as on hardware, or that of the CPU. Then a program
#: draws the numbers that it draws on the CPU, so that two runs can be compared.
SOURCES = ("device", "cpu")
#: As many as a server has.
DEFAULT_DEVICES = 8
MAX_DEVICES = 64


@dataclass(frozen=True)
class Settings:
    """The emulated machine.

    Args:
        core: one of :data:`CORES`.
        devices: how many NPUs it has.
        chip: the name that ``torch.npu.get_device_name()`` returns.
        random: one of :data:`SOURCES`.
    """

    core: str = "auto"
    devices: int = DEFAULT_DEVICES
    chip: str = "Ascend910B3"
    random: str = "device"


def make_settings(
    core: Optional[str] = None, devices: Optional[int] = None, environ: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings: from the arguments, else from the environment, else the defaults.

    Args:
        core: one of :data:`CORES`.
        devices: 1 to 64.
        environ: the environment.

    Raises:
        EmulationError: a value that there is not.
    """
    chosen = core or environ.get(CORE) or "auto"
    if chosen not in CORES:
        where = "core" if core else CORE
        raise EmulationError(f"npu_emulator: {where} is one of {', '.join(CORES)}, found {chosen!r}")
    number = environ.get(DEVICES) or DEFAULT_DEVICES if devices is None else devices
    digits = str(number)
    count = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0
    if not 1 <= count <= MAX_DEVICES:
        where = DEVICES if devices is None else "devices"
        raise EmulationError(f"npu_emulator: {where} is a number from 1 to {MAX_DEVICES}, found {number!r}")
    source = environ.get(RANDOM) or "device"
    if source not in SOURCES:
        raise EmulationError(f"npu_emulator: {RANDOM} is one of {', '.join(SOURCES)}, found {source!r}")
    return Settings(chosen, count, random=source)
