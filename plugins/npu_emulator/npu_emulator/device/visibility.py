"""Reads how many of the machine's devices a process may use."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["VISIBLE", "visible_devices"]

#: Which devices a process sees, as CANN's runtime reads it.
VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def visible_devices(devices: int, environ: Mapping[str, str] = os.environ) -> int:
    """Return how many devices this process sees.

    The rules are those of torch_npu's ``device_count`` (2.6): only the text before the first character that is
    neither digit nor comma is read, the numbers have to ascend, and the first one out of range ends the list.

    Args:
        devices: how many the machine has.
        environ: where :data:`VISIBLE` is looked up.
    """
    value = environ.get(VISIBLE)
    if value is None:
        return devices
    numbers: list[int] = []
    for part in _leading_list(value).split(","):
        digits = part.lstrip("0") or part[-1:]  # 0 for zeros
        if not digits or len(digits) > 9 or int(digits) >= devices:  # int refuses thousands of digits
            break
        if numbers and int(digits) <= numbers[-1]:
            return 0
        numbers.append(int(digits))
    return len(numbers)


def _leading_list(value: str) -> str:
    for position, character in enumerate(value):
        if character not in "0123456789,":
            return value[:position]
    return value
