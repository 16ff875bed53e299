"""The state of autocast on the NPU, which torch keeps per device type and thread."""

from __future__ import annotations

import torch

__all__ = [
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes in which autocast can compute."""
    return [torch.float16, torch.bfloat16, torch.float32]


def is_autocast_enabled() -> bool:
    """Return whether autocast is on."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    """Switch autocast on or off."""
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    """Return the dtype in which autocast computes."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Set the dtype in which autocast computes."""
    torch.set_autocast_dtype("npu", dtype)
