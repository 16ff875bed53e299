"""The errors of the emulator."""

from __future__ import annotations

__all__ = ["EmulationError", "NotEmulated", "RealLibraryError"]


class EmulationError(RuntimeError):
    """The NPU cannot be emulated in this process, or not with these settings; the message has the remedy."""


class RealLibraryError(EmulationError):
    """The library or device to emulate is really there, and a stand-in must never hide it."""


class NotEmulated(EmulationError, NotImplementedError):
    """A feature of the real device that the emulated one lacks; it raises and is never ignored."""
