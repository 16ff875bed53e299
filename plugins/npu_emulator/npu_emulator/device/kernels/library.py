"""The library in which the kernels of this package are registered."""

from __future__ import annotations

from typing import Any, Callable

import torch

__all__ = ["KernelLibrary"]

# torch drops kernels with the library that registered them.
_kept: list[torch.library.Library] = []


class KernelLibrary:
    """Registers kernels of ATen operators for NPU tensors, for good."""

    def __init__(self) -> None:
        self._library = torch.library.Library("aten", "IMPL")
        _kept.append(self._library)

    def kernel(self, name: str, function: Callable[..., Any]) -> None:
        """Register a kernel.

        Args:
            name: of the operator, without ``aten::``.
            function: called with the operator's arguments.
        """
        self._library.impl(name, function, "PrivateUse1", allow_override=True)
