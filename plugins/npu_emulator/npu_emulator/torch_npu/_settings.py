"""The settings of the emulated device in this process."""

from __future__ import annotations

from npu_emulator import device, installation
from npu_emulator.settings import Settings

__all__ = ["current_settings"]


def current_settings() -> Settings:
    """Return the settings that the device has, or is being started with.

    Where the import of this package starts the emulation, these are the settings that ``npu_emulator.install()`` was
    given, else those of the environment.
    """
    return device.requested_settings() or installation.current_settings()
