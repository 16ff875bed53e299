"""Adds the kernels of other libraries to the device: those of ``mx_driving`` and of ``mmcv._ext``.

The libraries have them as machine code of an NPU, which the fake CANN cannot run. npu-emulator has them in PyTorch.
"""

from __future__ import annotations

import importlib.util

__all__ = ["install_kernels"]


def install_kernels() -> bool:
    """Let ``import mx_driving`` and the operators of mmcv find npu-emulator's kernels, where npu-emulator is installed.

    A real mx_driving stays as it is: its kernels fail when they are called.

    Returns:
        True if the kernels are there.
    """
    if importlib.util.find_spec("npu_emulator") is None:
        return False
    import npu_emulator

    try:
        npu_emulator.install(device=False, mmcv=True)
    except npu_emulator.RealLibraryError:
        return False
    return True
