"""Defines whether mixed precision is available."""

from __future__ import annotations

from npu_emulator.torch_npu.npu._devices import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Return whether there is no device."""
    return not is_available()
