"""The operators ``torch_npu.npu_*``, computed by readable PyTorch code.

Names, signatures and outputs are those that op-plugin configures for torch_npu on PyTorch 2.1 to 2.10
(``op_plugin/config/op_plugin_functions.yaml``). Gradients flow where op-plugin has a derivative
(``op_plugin/config/derivatives.yaml``, PyTorch 2.1 to 2.6) or documents one; elsewhere results do not require
gradients, whatever the arguments do. The computation of an operator is taken from its page in op-plugin's documentation
(``docs/context/torch_npu-npu_*.md``) and, where that is silent, from op-plugin's tests; where both leave something
open, the operator's docstring names the choice. Limits of the hardware on shapes and dtypes are not imposed, and
results have the CPU's rounding, not the NPU's.

:func:`register` makes them ``torch.ops.npu.npu_*``; :func:`lookup` finds one for ``torch_npu.npu_*``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional

import torch
from torch.library import Library

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops import (  # noqa: F401  importing a module declares its operators
    activation,
    attention,
    boxes,
    convolution,
    dropout,
    formats,
    indexing,
    layout,
    linear,
    loss,
    normalization,
    roi,
    suppression,
)
from npu_emulator.torch_npu.ops.registry import NAMESPACE, define, operators

if TYPE_CHECKING:
    from npu_emulator.private_torch import OpOverloadPacket

__all__ = ["OperatorNotEmulated", "lookup", "names", "register"]

#: Declared when the modules above were imported, and no more after that.
_names = frozenset(declared.name for declared in operators())
_library: Optional[Library] = None
_registering = threading.Lock()


class OperatorNotEmulated(NotEmulated, AttributeError):
    """An operator that the emulator does not have; ``hasattr(torch_npu, name)`` is false for it."""


def register() -> None:
    """Define every operator in torch's library ``npu``; does nothing when that is done.

    Calling one as ``torch.npu_*``, as they once were called, is an error that says where it is now, as with torch_npu.

    Raises:
        RuntimeError: another library, such as the real torch_npu, has defined one of them.
    """
    global _library
    with _registering:
        if _library is not None:
            return
        library = Library(NAMESPACE, "FRAGMENT")
        for declared in operators():
            define(library, declared)
        for name in _names:
            setattr(torch, name, _refusal(name))
        _library = library


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.{name} is deprecated and gone from torch_npu since 2.1; use torch_npu.{name} instead"
        )

    return refuse


def names() -> tuple[str, ...]:
    """Return the names of the emulated operators, sorted."""
    return tuple(sorted(_names))


def lookup(name: str) -> OpOverloadPacket:
    """Return the operator that ``torch_npu`` has under a name; call :func:`register` first.

    Args:
        name: such as ``npu_fusion_attention``.

    Raises:
        OperatorNotEmulated: there is none; it is an :class:`AttributeError` too.
    """
    if name not in _names:
        raise OperatorNotEmulated(
            f"torch_npu.{name} is not emulated; npu_emulator.torch_npu.ops.names() lists the emulated operators. "
            "Use PyTorch's own operators in its place, or run on an NPU"
        )
    return getattr(getattr(torch.ops, NAMESPACE), name)
