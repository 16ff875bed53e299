"""The number of devices, and the current device of each thread."""

from __future__ import annotations

import threading
from typing import Optional

import torch

from npu_emulator.settings import DEVICES
from patchcore.plugin import counted

__all__ = ["Devices"]


class _Thread(threading.local):
    current = 0


class Devices:
    """The devices ``npu:0`` to ``npu:count - 1``.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._thread = _Thread()

    def current(self) -> int:
        """Return the index of this thread's current device."""
        return self._thread.current

    def select(self, index: int) -> None:
        """Make a device this thread's current one.

        Raises:
            RuntimeError: there is no such device.
        """
        self.check(index)
        self._thread.current = index

    def resolve(self, device: Optional[torch.device]) -> int:
        """Return the index that a device argument means: its own, else that of the current device.

        Raises:
            RuntimeError: there is no such device.
        """
        if device is None or device.index is None:
            return self._thread.current
        self.check(device.index)
        return device.index

    def check(self, index: int) -> None:
        """Raise unless there is a device with this index.

        Raises:
            RuntimeError: there is not.
        """
        if not 0 <= index < self.count:
            raise RuntimeError(
                f"invalid device ordinal: expected an index from 0 to {self.count - 1}, found npu:{index}. "
                f"This process emulates {counted(self.count, 'NPU')}; the environment variable {DEVICES} sets how many."
            )
