"""Which tensors the fused kernels take: plain tensors on one NPU, in one floating-point type."""

from __future__ import annotations

from typing import Any

__all__ = ["alike", "is_traced"]


def is_traced() -> bool:
    """Return True while a graph is made: its calls go to the original, whose small operators the compiler fuses."""
    import torch

    return bool(torch.compiler.is_compiling() or torch.jit.is_tracing())


def alike(first: Any, *others: Any) -> bool:
    """Return True if all are plain tensors on one NPU, in the same one of float32, float16 and bfloat16.

    Args:
        first: of the call.
        others: of the call.
    """
    import torch

    if first.device.type != "npu" or is_traced():
        return False
    return first.dtype in (torch.float32, torch.float16, torch.bfloat16) and all(
        type(each) in (torch.Tensor, torch.nn.Parameter) and each.dtype == first.dtype and each.device == first.device
        for each in (first, *others)
    )
