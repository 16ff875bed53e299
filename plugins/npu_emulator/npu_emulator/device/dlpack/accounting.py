"""Counts the memory of the tensors on each device."""

from __future__ import annotations

import threading
import weakref
from collections import deque

import torch

from npu_emulator.device.interface import Memory

__all__ = ["Accounting"]


class Accounting:
    """Counts storages from their appearance on a device to their end.

    Args:
        devices: how many devices there are.
    """

    def __init__(self, devices: int) -> None:
        self._allocated = [0] * devices
        self._peak = [0] * devices
        self._allocations = [0] * devices
        self._live: dict[int, tuple[weakref.ref[torch.UntypedStorage], int, int]] = {}
        # A storage may end anywhere, within a garbage collection under the lock too. So its end only queues its
        # reference, which is atomic, and whoever comes next subtracts it.
        self._ended: deque[weakref.ref[torch.UntypedStorage]] = deque()
        self._on_end = self._ended.append
        self._lock = threading.Lock()

    def add(self, tensor: torch.Tensor, index: int) -> None:
        """Count the storage of a tensor that has just been put onto a device.

        Args:
            tensor: dense, on ``npu:index``; nothing else has its storage yet.
            index: the device.
        """
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        if not nbytes:
            return
        reference = weakref.ref(storage, self._on_end)
        with self._lock:
            self._live[id(reference)] = (reference, index, nbytes)
            if self._ended:
                self._subtract_ended()
            self._allocations[index] += 1
            allocated = self._allocated[index] = self._allocated[index] + nbytes
            if allocated > self._peak[index]:
                self._peak[index] = allocated

    def memory(self, index: int) -> Memory:
        """Return the figures of a device's memory."""
        with self._lock:
            self._subtract_ended()
            return Memory(self._allocated[index], self._peak[index], self._allocations[index])

    def reset_peak(self, index: int) -> None:
        """Set a device's peak to the memory that is allocated now."""
        with self._lock:
            self._subtract_ended()
            self._peak[index] = self._allocated[index]

    def _subtract_ended(self) -> None:
        while self._ended:
            _, index, nbytes = self._live.pop(id(self._ended.popleft()))
            self._allocated[index] -= nbytes
