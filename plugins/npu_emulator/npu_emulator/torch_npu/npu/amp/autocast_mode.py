"""Autocast, with the NPU as its device."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import torch

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """``torch.autocast("npu")``, as context manager or decorator.

    Args:
        enabled: whether operators choose their precision within the block.
        dtype: of the operators that gain from it: ``float16`` or ``bfloat16``.
        cache_enabled: whether weights are cast once only.
    """

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def custom_fwd(fwd: Optional[Callable[..., Any]] = None, *, cast_inputs: Optional[torch.dtype] = None) -> Any:
    """Decorate ``forward`` of a ``torch.autograd.Function``: ``torch.amp.custom_fwd(device_type="npu")``.

    Args:
        fwd: the method, when used without arguments.
        cast_inputs: the dtype to which floating-point NPU tensors are cast, with autocast off within; ``None`` changes
            neither.
    """
    decorator = functools.partial(torch.amp.custom_fwd, device_type="npu", cast_inputs=cast_inputs)
    return decorator if fwd is None else decorator(fwd)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``backward`` of a ``torch.autograd.Function``: ``torch.amp.custom_bwd(device_type="npu")``."""
    return torch.amp.custom_bwd(bwd, device_type="npu")
