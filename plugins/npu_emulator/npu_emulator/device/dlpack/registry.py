"""Registers kernels with torch's dispatcher, for good."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from npu_emulator.private_torch import DispatchKeySet, OpOverload

__all__ = ["Registry", "operator_named"]


def operator_named(name: str) -> OpOverload:
    """Return an ATen operator.

    Args:
        name: such as ``"add.Tensor"`` or ``"relu"``, without ``aten::``.
    """
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


class Registry:
    """Holds the libraries: torch drops their kernels as soon as nobody refers to them."""

    def __init__(self) -> None:
        self._aten = torch.library.Library("aten", "IMPL")
        self._all = torch.library.Library("_", "IMPL")

    def kernel(self, name: str, function: Callable[..., Any], key: str = "PrivateUse1") -> None:
        """Register a kernel of an ATen operator.

        Args:
            name: of the operator, without ``aten::``.
            function: called with the operator's arguments.
            key: name of a dispatch key.
        """
        self._aten.impl(name, function, key, allow_override=True)

    def redispatch(self, name: str, key: str, keys: DispatchKeySet) -> None:
        """Let the kernel that an operator has for other keys serve a key too.

        Args:
            name: of the operator, without ``aten::``.
            key: name of the dispatch key to serve.
            keys: the keys whose kernel it is.
        """
        self.kernel(name, functools.partial(operator_named(name)._handle.redispatch_boxed, keys), key)

    def fallback(self, function: Callable[..., Any], key: str) -> None:
        """Register the fallback for every operator that has no kernel for a key.

        Args:
            function: called with the operator and its arguments.
            key: name of a dispatch key.
        """
        self._all.fallback(function, key)
