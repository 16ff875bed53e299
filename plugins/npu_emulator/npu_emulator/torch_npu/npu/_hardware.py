"""Functions about the state of the hardware itself: faults, tests, keys, handles."""

from __future__ import annotations

import warnings

from npu_emulator.torch_npu.npu import _initialization
from npu_emulator.torch_npu.npu._refusals import refusing_function

__all__ = [
    "check_uce_in_memory",
    "current_blas_handle",
    "ipc_collect",
    "npurt",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "restart_device",
    "stop_device",
    "stress_detect",
]

_FAULTS = "an emulated NPU has no hardware that could fail"
_OBFUSCATION = "a trusted part of the hardware obfuscates models"


def current_blas_handle() -> None:
    """Return ``None``, with a warning: NPUs have no handle of a BLAS library."""
    warnings.warn("NPU does not use blas handle.", stacklevel=2)


def ipc_collect() -> None:
    """Release memory that other processes no longer use; none is shared between emulated devices."""
    _initialization._lazy_init()


check_uce_in_memory = refusing_function("torch.npu.check_uce_in_memory", _FAULTS)
restart_device = refusing_function("torch.npu.restart_device", _FAULTS)
stop_device = refusing_function("torch.npu.stop_device", _FAULTS)
stress_detect = refusing_function("torch.npu.stress_detect", _FAULTS)
obfuscation_calculate = refusing_function("torch.npu.obfuscation_calculate", _OBFUSCATION)
obfuscation_finalize = refusing_function("torch.npu.obfuscation_finalize", _OBFUSCATION)
obfuscation_initialize = refusing_function("torch.npu.obfuscation_initialize", _OBFUSCATION)
npurt = refusing_function("torch.npu.npurt", "there is no CANN runtime")
