"""CUDA_VISIBLE_DEVICES, which a program or its launcher sets, as the variable that CANN's runtime reads."""

from __future__ import annotations

import logging
import os
from typing import Any, Optional

import patchcore as pc
from patchcore.plugin import ABSENT, Slot, SlotChange

__all__ = ["ASCEND", "CUDA", "AsAscendVariable", "changed_too_late", "hides_all", "hiding_variable", "npu_numbers"]

logger = logging.getLogger("patchcore")

ASCEND = "ASCEND_RT_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"

#: The value of CUDA_VISIBLE_DEVICES when it was read first; empty before.
_seen: list[Optional[str]] = []


class AsAscendVariable(SlotChange):
    """Set ASCEND_RT_VISIBLE_DEVICES to the numbers in CUDA_VISIBLE_DEVICES, unless it is set already.

    It does so while torch is being imported, by its target: a program that chooses its cards does that before, and the
    end of that import loads torch_npu.
    """

    may_be_absent = True

    def __init__(self) -> None:
        super().__init__(target=pc.Target.parse(f'torch._utils_internal:os.environ["{ASCEND}"]'))

    @property
    def kind(self) -> str:
        return "replace"

    @property
    def source(self) -> Any:
        return AsAscendVariable

    def build(self, below: Any, slot: Slot) -> Any:
        value = os.environ.get(CUDA)
        _seen[:] = [value]
        if below is not ABSENT:
            return pc.Skip(f"{ASCEND} is set already")
        if value is None:
            return pc.Skip(f"{CUDA} is not set")
        numbers, remark = npu_numbers(value)
        if remark:
            logger.warning("%s=%r %s", CUDA, value, remark)
        return pc.Skip(f"{CUDA}={value!r} {remark}") if numbers is None else ",".join(map(str, numbers))


def npu_numbers(value: str) -> tuple[Optional[list[int]], str]:
    """Return the NPUs that a CUDA_VISIBLE_DEVICES chooses, ``None`` if it chooses none by number, and the message.

    CUDA reads the list up to the first entry that is no number from 0: ``1,-1,2`` is GPU 1, an empty text and ``-1``
    hide all. CANN wants ascending numbers and sees no device otherwise.
    """
    numbers: list[int] = []
    for part in map(str.strip, value.split(",")):
        if part.upper().startswith(("GPU-", "MIG-")):
            return None, f"names GPUs by UUID, and all NPUs are seen; choose NPUs by number: {ASCEND}=0,1"
        if not (part.isascii() and part.isdecimal()):
            break
        numbers.append(int(part))
    if len(set(numbers)) != len(numbers):
        return [], ""  # as in CUDA, no device
    if numbers != sorted(numbers):
        numbers.sort()
        return numbers, f"is not ascending, which CANN does not support; NPU 0 of this process is number {numbers[0]}"
    return numbers, ""


def changed_too_late() -> Optional[str]:
    """Return the warning about a CUDA_VISIBLE_DEVICES that has been changed since torch was imported."""
    value = os.environ.get(CUDA)
    if not _seen or value == _seen[0]:
        return None
    return f"{CUDA} was {_seen[0]!r} when torch was imported and is {value!r} now: set it before `import torch`"


def hiding_variable() -> str:
    """Return the variable that decides which NPUs this process sees, as its user set it; empty if none is set."""
    numbers = npu_numbers(os.environ.get(CUDA, ""))[0]
    by_cuda = CUDA in os.environ and os.environ.get(ASCEND) == ",".join(map(str, numbers or ()))
    return CUDA if by_cuda else ASCEND if ASCEND in os.environ else ""


def hides_all() -> bool:
    """Return True if the environment chooses no NPU: by an empty list, or by one that does not begin with a number."""
    variable = hiding_variable()
    return bool(variable) and npu_numbers(os.environ[variable])[0] == []
