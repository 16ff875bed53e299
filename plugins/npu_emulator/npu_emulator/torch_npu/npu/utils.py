"""``torch_npu.npu.utils``: overflow, the chip's number, and the other names of that module."""

from __future__ import annotations

import math
import warnings
from typing import Union

from torch import Tensor

from npu_emulator.torch_npu._settings import current_settings
from npu_emulator.torch_npu.npu._chips import chip
from npu_emulator.torch_npu.npu._current_streams import (
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from npu_emulator.torch_npu.npu._devices import (
    current_device,
    device,
    device_of,
    is_bf16_supported,
    set_device,
    synchronize,
)
from npu_emulator.torch_npu.npu._utils import _get_device_index

__all__ = [
    "StreamContext",
    "_get_device_index",
    "clear_npu_overflow_flag",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "get_npu_overflow_flag",
    "get_soc_version",
    "is_bf16_supported",
    "is_support_inf_nan",
    "npu_check_overflow",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]


def get_soc_version() -> int:
    """Return torch_npu's number of the emulated chip, such as 223 for Ascend910B3."""
    return chip(current_settings().chip).soc_version


def is_support_inf_nan() -> bool:
    """Return whether the chip computes infinities and NaNs, which those emulated here do."""
    return True


def npu_check_overflow(grad: Union[Tensor, float]) -> bool:
    """Return whether there is an infinity or NaN among the values of a gradient, or their sum overflows float32.

    Raises:
        RuntimeError: it is neither tensor nor ``float``.
    """
    if not isinstance(grad, (Tensor, float)):
        raise RuntimeError(f"npu_check_overflow: expected a tensor or float, found {type(grad).__name__}")
    total = float(grad.float().sum()) if isinstance(grad, Tensor) else grad
    return not math.isfinite(total)


def get_npu_overflow_flag() -> bool:
    """Raise: only older chips have the flag.

    Raises:
        RuntimeError: always, as on Ascend910B1 and later.
    """
    raise RuntimeError("Unsupported api when soc_version >= Ascend910B1, please use npu_check_overflow")


def clear_npu_overflow_flag() -> None:
    """Warn that only older chips have the flag."""
    warnings.warn(
        "clear_npu_overflow_flag does nothing when soc_version >= Ascend910B1, please remove it.", stacklevel=2
    )
