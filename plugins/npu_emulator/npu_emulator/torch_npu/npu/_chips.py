"""The known properties of the chips that can be emulated.

Core counts and memory are those that CANN's ``platform_config`` files state for the chips; the numbers of
:attr:`Chip.soc_version` are torch_npu's ``SocVersion``. They are answers to questions about the device, and limit
nothing here.
"""

from __future__ import annotations

from typing import NamedTuple

from npu_emulator.errors import EmulationError

__all__ = ["Chip", "chip"]

GIB = 1 << 30
MIB = 1 << 20


class Chip(NamedTuple):
    """One chip.

    Args:
        name: as ``torch.npu.get_device_name()`` returns it.
        soc_version: torch_npu's number of it.
        cube_cores: how many matrix units.
        vector_cores: how many vector units.
        memory: in bytes.
        l2_cache: in bytes.
    """

    name: str
    soc_version: int
    cube_cores: int
    vector_cores: int
    memory: int
    l2_cache: int


CHIPS = {
    found.name: found
    for found in (
        Chip("Ascend910B1", 220, 24, 48, 64 * GIB, 192 * MIB),
        Chip("Ascend910B2", 221, 24, 48, 64 * GIB, 192 * MIB),
        Chip("Ascend910B3", 223, 20, 40, 64 * GIB, 192 * MIB),
        Chip("Ascend910B4", 224, 20, 40, 32 * GIB, 96 * MIB),
    )
}


def chip(name: str) -> Chip:
    """Return the properties of a chip.

    Raises:
        EmulationError: nothing is.
    """
    if name not in CHIPS:
        raise EmulationError(f"npu_emulator: the chip to emulate is one of {', '.join(CHIPS)}, found {name!r}")
    return CHIPS[name]
