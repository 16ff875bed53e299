"""Returns the index of a device, however users pass it; torch's deserialisation looks for this module by name."""

from __future__ import annotations

from typing import Any

import torch

from npu_emulator import device as emulated
from npu_emulator.device.visibility import VISIBLE
from patchcore.plugin import counted

__all__ = ["valid_device_index"]


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device.

    Args:
        device: an index, returned as it is; ``"npu:1"``, ``torch.device("npu", 1)``, a :class:`torch.npu.device`, or
            ``None``.
        optional: whether a device without index means the current one.
        allow_cpu: whether the CPU is allowed, whose index is -1.

    Raises:
        ValueError: it is a device of another kind, or has no index where one is needed.
    """
    if isinstance(device, int):
        return device
    index = getattr(device, "idx", None)  # the name of the index of a torch.npu.device in torch_npu
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "npu":
            expected = "a npu or cpu device" if allow_cpu else "a npu device"
            raise ValueError(f"Expected {expected}, but got: {device}")
        index = device.index
    if index is None:
        if not optional:
            raise ValueError(f"Expected a npu device with an index, or an integer, but got: {device!r}")
        return emulated.active().current_device()
    return index


def valid_device_index(device: Any) -> int:
    """Return the index of a device that there is; ``None`` is the current one.

    Args:
        device: as :func:`_get_device_index` takes it.

    Raises:
        AssertionError: there is no such device (the type that torch_npu raises).
    """
    index = _get_device_index(device, optional=True)
    count = emulated.active().device_count()
    if not 0 <= index < count:
        devices = (
            f"one of {counted(count, 'emulated device')}, 0 to {count - 1}"
            if count
            else f"no device, because {VISIBLE} hides all"
        )
        raise AssertionError(f"Invalid device id {index}: expected {devices}")
    return index
