"""Names functions of torch in ranges.

Imported when markers are applied: needs torch.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple, Optional

import torch

from torch_markers import private_torch
from torch_markers.text import quote

__all__ = ["Naming", "naming_of"]

#: Functions of torch that only read or set properties of a tensor on the host, and start nothing on a device.
_METADATA = frozenset(
    (
        *("dim", "ndimension", "size", "stride", "numel", "nelement", "element_size", "storage_offset", "data_ptr"),
        *("get_device", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_inference", "is_conj"),
        *("is_neg", "is_same_size", "is_set_to", "is_pinned", "is_shared", "has_names", "_is_view", "_is_zerotensor"),
        *("__len__", "__hash__", "__dir__", "storage", "untyped_storage", "storage_type", "as_subclass"),
        *("register_hook", "register_post_accumulate_grad_hook", "retain_grad", "requires_grad_"),
        *("result_type", "promote_types", "can_cast"),
    )
)
#: Functions that are not for users: the switches of torch, and the ranges of its profiler.
_INTERNAL = ("torch._C", "torch._ops.profiler")
#: The public names of functions that are defined elsewhere.
_PUBLIC = {
    **dict.fromkeys(("torch._tensor", "torch._tensor.Tensor"), "torch.Tensor"),
    **dict.fromkeys(("torch._VariableFunctionsClass", "torch.functional", "builtins"), "torch"),
    **{f"torch._C._{part}": f"torch.{part}" for part in ("fft", "linalg", "special", "sparse", "nested")},
    "torch._C._nn": "torch.nn.functional",
}
_ACCESS = ("__get__", "__set__", "__delete__")
_KEPT = 10_000


class Naming(NamedTuple):
    """The beginning of the text of a function's calls, and the names of its positional arguments.

    Args:
        text: the beginning of an object, without a comma at its end; empty for a function that is not marked.
        parameters: names, as far as they are known.
    """

    text: str
    parameters: tuple[str, ...] = ()


_UNMARKED = Naming("")
_known: dict[Any, Naming] = {}


def naming_of(function: Any) -> Naming:
    """Return how calls of ``function`` are named."""
    try:
        found = _known.get(function)
    except TypeError:  # has no hash
        return _name(function)
    if found is None:
        if len(_known) >= _KEPT:  # functions that are made as the program goes
            _known.clear()
        found = _known[function] = _name(function)
    return found


def _name(function: Any) -> Naming:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        name = type(function).__name__
    if name in _ACCESS:
        return _UNMARKED
    module = _module(function, name)
    if module.startswith(_INTERNAL) or (name in _METADATA and module in ("torch", "torch.Tensor")):
        return _UNMARKED
    parameters: tuple[str, ...] = ()
    if isinstance(function, FunctionType):
        code = function.__code__
        parameters = tuple(n for n in code.co_varnames[: code.co_argcount] if n.isascii())
    return Naming(f"{{'mod':{quote(module)},'op':{quote(name)}", parameters)


def _module(function: Any, name: str) -> str:
    """The namespace in which users find the function."""
    owner: Optional[Any] = getattr(function, "__objclass__", None)  # of a method of a class in C
    if owner is None:
        owner = getattr(function, "__self__", None)
        owner = owner if isinstance(owner, type) else None
    if owner is not None:
        if owner is private_torch.TensorBase or issubclass(torch.Tensor, owner):
            return "torch.Tensor"
        return f"{owner.__module__}.{owner.__qualname__}"
    module = str(getattr(function, "__module__", None) or "torch")
    scope = str(getattr(function, "__qualname__", name)).rpartition(".")[0]
    if scope and "<" not in scope:
        module = f"{module}.{scope}"
    return _PUBLIC.get(module, module)
