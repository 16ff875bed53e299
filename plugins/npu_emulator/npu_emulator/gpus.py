"""Hides the GPUs of the machine from the CUDA runtime of this process and of its children.

With :mod:`npu_emulator.cuda_build`, no Python function of torch reaches a GPU. Compiled code (an extension of the
program, cupy, numba) asks the CUDA runtime, which reads CUDA_VISIBLE_DEVICES from the environment of the process. For
the program the variable chooses NPUs, so ``os.environ`` keeps the program's value: only the environment that compiled
code and child processes see has another. A child that emulates NPUs too puts the program's value back.
"""

from __future__ import annotations

import os

__all__ = ["DRIVERS", "hide_gpus"]

VISIBLE = "CUDA_VISIBLE_DEVICES"

#: Where a driver of GPUs shows itself: NVIDIA's, and Windows' for its Linux subsystem.
DRIVERS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")

#: CUDA reads the list up to the first entry that is no device, so -1 in front hides all; the rest is for our children.
_UNSET = "-1,npu-emulator"
_SET = f"{_UNSET}="


def hide_gpus() -> None:
    """Hide the GPUs, where there is a driver; again after the program has set the variable."""
    value = os.environ.get(VISIBLE)
    if value is not None and value.startswith(_UNSET):  # a process of this run has started us
        value = value[len(_SET) :] if value.startswith(_SET) else None
        if value is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = value
    if any(map(os.path.exists, DRIVERS)):
        os.putenv(VISIBLE, _UNSET if value is None else _SET + value)
