"""Ranges around calls of torch's functions and of the methods of its tensors, by a ``TorchFunctionMode``.

Such a mode sees each call that a program makes, and no calls inside of torch's functions. It belongs to a thread: the
one that applies markers has it from then on, others while they call a module. The engine of autograd hands it on to its
own threads.

Imported when markers are applied: needs torch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torch_markers import marking as markings
from torch_markers import private_torch
from torch_markers.naming import naming_of
from torch_markers.scopes import Scope, thread

__all__ = ["FunctionMarkers", "enter", "leave"]

_is_compiling = torch.compiler.is_compiling
_is_tracing = private_torch.is_tracing
_depth = private_torch.len_torch_function_stack
_at = private_torch.get_function_stack_at
_push = private_torch.push_on_torch_function_stack
_pop = private_torch.pop_torch_function_stack
_NoTorchFunction = private_torch.DisableTorchFunction


class FunctionMarkers(TorchFunctionMode):
    """Puts a range around each call, except calls that torch.compile or torch.jit traces."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs is None:
            kwargs = {}
        if _is_compiling():
            return function(*args, **kwargs)
        marking = markings.active
        if marking is None or not marking.functions or (marking.idle is not None and marking.idle()):
            return function(*args, **kwargs)
        naming = naming_of(function)
        if not naming.text or _is_tracing():
            return function(*args, **kwargs)
        with _NoTorchFunction():  # other modes are not to see the queries of the arguments
            text = marking.text(naming, args, kwargs, sys._getframe(1))
        token = marking.open(text)
        try:
            result = function(*args, **kwargs)
        finally:
            marking.close(token)
        if marking.backward:
            with _NoTorchFunction():
                Scope(marking, thread.scope, text).claim(result)
        return result


_MODE = FunctionMarkers()


def enter() -> bool:
    """Enter the mode in this thread; return ``False`` if it is entered already.

    It goes below the modes that are entered already: their ``with`` blocks are to find themselves on top when they end.
    Only the mode of ``torch.set_default_device`` insists on being the lowest.
    """
    if any(_at(i) is _MODE for i in range(_depth())):
        return False
    above = list(_take_off())
    default = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    if above and above[-1] is default:
        _push(above.pop())
    _push(_MODE)
    for mode in reversed(above):
        _push(mode)
    return True


def leave() -> None:
    """Leave the mode in this thread, at any place in its stack."""
    for mode in reversed([mode for mode in _take_off() if mode is not _MODE]):
        _push(mode)


def _take_off() -> Iterator[Any]:
    while _depth():
        yield _pop()
