"""Chooses the implementation of ``scaled_dot_product_attention``."""

from __future__ import annotations

from typing import Any

from torch.nn.attention import SDPBackend

from npu_emulator.device.interface import Core
from npu_emulator.device.kernels.library import KernelLibrary

__all__ = ["register"]


def register(library: KernelLibrary, core: Core) -> None:
    """Register the choice. Without it torch takes a fused operator that only hardware has."""
    library.kernel("_fused_sdp_choice", choose_math)


def choose_math(*args: Any, **kwargs: Any) -> int:
    """Choose the implementation made of matrix products and a softmax, whatever the arguments.

    It differs from the fused kernels of the CPU by rounding only.
    """
    return SDPBackend.MATH.value
