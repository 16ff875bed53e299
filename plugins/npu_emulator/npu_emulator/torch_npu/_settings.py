"""What is emulated in this process."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from npu_emulator import installation
from npu_emulator.settings import Settings

__all__ = ["VISIBLE", "current_settings", "visible"]

#: Which devices a process sees, as CANN's runtime reads it.
VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def current_settings() -> Settings:
    """Return the settings that ``npu_emulator.install()`` was given, else those of the environment."""
    return installation.current_settings()


def visible(settings: Settings, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings with as many devices as this process sees.

    The rules are those of torch_npu's ``device_count`` (2.6): only what stands before the first character that is
    neither digit nor comma is read, the numbers have to ascend, and the first one out of range ends the list.

    Args:
        settings: of the machine.
        environ: where :data:`VISIBLE` is looked up.
    """
    value = environ.get(VISIBLE)
    if value is None:
        return settings
    numbers: list[int] = []
    for part in _leading_list(value).split(","):
        if not part or int(part) >= settings.devices:
            break
        if numbers and int(part) <= numbers[-1]:
            numbers = []
            break
        numbers.append(int(part))
    return dataclasses.replace(settings, devices=len(numbers))


def _leading_list(value: str) -> str:
    for position, character in enumerate(value):
        if not (character.isdigit() or character == ","):
            return value[:position]
    return value
