"""CUDA_VISIBLE_DEVICES, which a program or its launcher sets, as the variable that CANN's runtime reads."""

from __future__ import annotations

import os
from typing import Any

import patchcore as pc
from patchcore.changes import SlotChange
from patchcore.target import ABSENT, Slot

__all__ = ["ASCEND", "CUDA", "AsAscendVariable"]

ASCEND = "ASCEND_RT_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"


class AsAscendVariable(SlotChange):
    """Set ASCEND_RT_VISIBLE_DEVICES to the numbers in CUDA_VISIBLE_DEVICES, unless it is set already.

    It does so when torch has been imported, by its target: a program that chooses its cards does that before.
    """

    def __init__(self) -> None:
        super().__init__(target=pc.Target.parse(f'torch:os.environ["{ASCEND}"]'))

    @property
    def kind(self) -> str:
        return "replace"

    @property
    def source(self) -> Any:
        return AsAscendVariable

    @property
    def may_be_absent(self) -> bool:
        return True

    def build(self, below: Any, slot: Slot) -> Any:
        value = os.environ.get(CUDA)
        if below is not ABSENT:
            return pc.Skip(f"{ASCEND} is set already")
        if value is None:
            return pc.Skip(f"{CUDA} is not set")
        numbers = [part.strip() for part in value.split(",")]
        if not all(number.isascii() and number.isdecimal() for number in numbers):
            return pc.Skip(f"{CUDA}={value!r} names no NPUs: they are chosen by numbers; set {ASCEND}")
        return ",".join(numbers)
