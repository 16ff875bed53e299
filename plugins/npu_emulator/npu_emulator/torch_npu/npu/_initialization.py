"""When the device counts as initialised, and how a forked process may use it.

As on the hardware, nothing is initialised until the device is first used, and a process forked after that cannot use
it: torch looks at :func:`_is_in_bad_fork` before it seeds devices, and calls :func:`_lazy_init` before it makes the
first tensor (``torch/csrc/utils/device_lazy_init.cpp``). The core refuses every kernel there.
"""

from __future__ import annotations

import os
from typing import Any, Callable

from npu_emulator import device
from npu_emulator.device.visibility import VISIBLE

__all__ = ["init", "is_initialized"]

_REFUSAL = (
    "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' start "
    "method (emulated as the hardware does it)"
)

_initialized = False
_in_bad_fork = False


def is_initialized() -> bool:
    """Return whether this process has used the device and may go on using it."""
    return _initialized and not _in_bad_fork


def init() -> None:
    """Initialise the device; doing so again changes nothing.

    Raises:
        RuntimeError: this process was forked from one that had initialised it, or sees no device.
    """
    _lazy_init()


def _lazy_init() -> None:
    global _initialized
    if _initialized and not _in_bad_fork:
        return
    if _in_bad_fork:
        raise RuntimeError(_REFUSAL)
    if device.active().device_count() == 0:
        raise RuntimeError(
            f"No NPU devices are available: {VISIBLE} is {os.environ.get(VISIBLE)!r}, so this process sees no emulated "
            "NPU. Set it to device numbers such as '0,1' before the program starts, or do not set it"
        )
    _initialized = True


def _lazy_call(callback: Callable[[], Any], **_: Any) -> None:
    """Call at once: unlike the hardware, the emulated device needs nothing from initialisation."""
    callback()


def _is_in_bad_fork() -> bool:
    return _in_bad_fork


def _after_fork_in_child() -> None:
    global _in_bad_fork
    if _initialized and not _in_bad_fork:
        _in_bad_fork = True
        device.active().refuse(_REFUSAL)


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
