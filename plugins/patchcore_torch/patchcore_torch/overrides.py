"""Patched functions of torch follow its protocol: arguments with ``__torch_function__`` get a call first.

A function that takes part begins with ``if has_torch_function(...): return handle_torch_function(itself, ...)`` (torch
2.13, ``torch/overrides.py``), and the override that gets the call calls the function again, under the patched name. So
a patch that came before this would run twice: under a mode (``torch.device``, ``set_default_device``), for a subclass
(``DTensor``, ``FakeTensor``), while ``torch.fx`` traces. A patched function does the same first, with the function that
callers know; the original then finds nothing left to hand over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, Callable, Optional

from patchcore.plugin import closed_over
from patchcore_torch import later, private_torch

__all__ = ["handover", "takes_part"]


def handover(original: Any) -> Optional[tuple[Callable[..., bool], Callable[..., Any]]]:
    """Return the handover for calls of ``original``, ``None`` if it takes no part in the protocol.

    Args:
        original: the patched function; one of torch, or written like one.
    """
    return _HANDOVER if takes_part(original) else None


def takes_part(original: Any) -> bool:
    """Return True if ``original`` checks its arguments for ``__torch_function__``."""
    if not hasattr(sys.modules.get("torch"), "overrides"):
        return False
    if type(original) is FunctionType:
        return _hands_calls_over(original) or any(map(_hands_calls_over, _helpers(original)))
    if type(original) in (MethodDescriptorType, WrapperDescriptorType):
        return original.__objclass__ is getattr(private_torch, "TensorBase", None)
    if type(original) is BuiltinFunctionType:
        # those of torch.nn find themselves past the patched name, and run it once by that
        return getattr(getattr(private_torch, "VariableFunctions", None), original.__name__, None) is original
    return False


def _hands_calls_over(function: FunctionType) -> bool:
    return "handle_torch_function" in function.__code__.co_names


def _helpers(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the private functions that a function of torch calls to do its work.

    ``torch.meshgrid`` calls ``_meshgrid``. ``F.max_pool2d`` calls one of two functions in its closure
    (``boolean_dispatch`` in ``torch/_jit_internal.py``). These call ``handle_torch_function`` with the public function.
    """
    code = function.__code__
    if str(function.__module__).startswith("torch."):
        called = [function.__globals__.get(name) for name in code.co_names if name.startswith("_")]
        if "if_true" in code.co_freevars:
            called += closed_over(function)
        yield from (helper for helper in called if type(helper) is FunctionType)


def _hands_over(*args: Any, **kwargs: Any) -> bool:
    from torch.overrides import has_torch_function

    if later.waiting:
        later.catch_up()
    return has_torch_function(tuple(_flat(args, kwargs.values())))


def _hand_over(function: Any, *args: Any, **kwargs: Any) -> Any:
    from torch.overrides import handle_torch_function

    return handle_torch_function(function, tuple(_flat(args, kwargs.values())), *args, **kwargs)


def _flat(*groups: Iterable[Any]) -> Iterator[Any]:
    """Yield the arguments, and the items of those that are lists: ``torch.cat`` and ``torch.einsum`` take some."""
    for group in groups:
        for value in group:
            if type(value) in (list, tuple):
                yield from value
            else:
                yield value


_HANDOVER = (_hands_over, _hand_over)
