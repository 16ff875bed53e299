"""Reads the names in a shared library of Linux, for any processor of 64 bits: nothing of it is loaded.

Source of the format: the System V ABI, chapters "Object Files" and "Dynamic Linking".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["PROCESSORS", "processor", "symbols"]

#: The machine of a header (``e_machine``), as ``platform.machine()`` names it.
PROCESSORS = {62: "x86_64", 183: "aarch64"}

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM
_UNDEFINED = 0  # SHN_UNDEF


def processor(data: bytes) -> str:
    """Return the processor that a library is for, by its name in :data:`PROCESSORS` or its number.

    Args:
        data: the file.

    Raises:
        ValueError: it is no library of 64 bits and little-endian numbers.
    """
    machine = _header(data)[2]
    return PROCESSORS.get(machine, str(machine))


def symbols(data: bytes) -> tuple[set[str], set[str]]:
    """Return the names that a library needs of others, and those that it has for others.

    Args:
        data: the file.

    Raises:
        ValueError: it is no library of 64 bits and little-endian numbers.
    """
    needed: set[str] = set()
    defined: set[str] = set()
    for name, section in _dynamic_symbols(data):
        if name:
            (needed if section == _UNDEFINED else defined).add(name)
    return needed, defined


def _header(data: bytes) -> tuple[int, ...]:
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < _HEADER.size:
        raise ValueError("expected a shared library of 64 bits, found something else")
    return _HEADER.unpack_from(data)


def _dynamic_symbols(data: bytes) -> Iterator[tuple[str, int]]:
    header = _header(data)
    offset, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(data, offset + size * index) for index in range(count)]
    for _, kind, _, _, start, length, names, _, _, _ in sections:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        texts = sections[names][4]
        for place in range(start, start + length, _SYMBOL.size):
            name, _, _, section, _, _ = _SYMBOL.unpack_from(data, place)
            first = texts + name
            yield data[first : data.index(b"\0", first)].decode("ascii", "replace"), section
