"""Ranges around calls of modules, by torch's global module hooks.

Imported when markers are applied: needs torch.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any, Optional

import torch

from torch_markers import marking as markings
from torch_markers import private_torch
from torch_markers.arguments import describe_arguments
from torch_markers.callers import callers
from torch_markers.functions import enter, leave
from torch_markers.scopes import Scope, thread
from torch_markers.text import quote

__all__ = ["after_forward", "before_forward"]

_is_compiling = torch.compiler.is_compiling
_is_tracing = private_torch.is_tracing
_NoTorchFunction = private_torch.DisableTorchFunction
_LONGEST = 500  # characters of a module's representation


class _Module:
    """A module, and its name in ranges.

    Args:
        module: it.
        name: the path in the model to which it belongs, ``"encoder.layers.0"``; of a model its class.
    """

    __slots__ = ("name", "reference", "text")

    def __init__(self, module: Any, name: str) -> None:
        self.name = name
        self.text = ""
        identity = id(module)
        self.reference = weakref.ref(module, lambda _: _known.pop(identity, None))

    def describe(self, module: Any) -> str:
        """Return, and keep, how the text of its calls begins."""
        kind = type(module)
        try:
            extra = module.extra_repr()
        except Exception:  # made for another state of the module, say
            extra = "..."
        representation = quote(f"{kind.__name__}({extra})", longest=_LONGEST)
        place = quote(f"{kind.__module__}.{kind.__qualname__}")
        self.text = f"{{'mod':{place},'name':{quote(self.name)},'strRepr':{representation}"
        return self.text


_known: dict[int, _Module] = {}


def before_forward(module: Any, args: Any) -> None:
    """Begin the range of a call; a hook for all modules."""
    if _is_compiling() or _is_tracing():
        return
    marking = markings.active
    if marking is None or (marking.idle is not None and marking.idle()):
        return
    frame = sys._getframe(1)
    parent = thread.scope
    while parent is not None and not _is_inside(frame, parent):
        _close(parent)  # it has ended by an exception of a kind that torch does not tell its hooks
        parent = parent.parent
    with _NoTorchFunction():
        known = _known.get(id(module))
        if known is None or known.reference() is not module:
            known = _learn(module, parent)
        lines = callers(frame, parent) if marking.stacks else ""
        text = ""
        if marking.modules:
            text = known.text or known.describe(module)
            if marking.arguments:
                text = f"{text},'args':{describe_arguments((), args, {})}"
            if marking.stacks:
                text = f"{text},'traceMarker':[{lines[:-1]}]"
            text += "}"
        if marking.backward and parent is not None:
            parent.claim(args)  # the functions that made the arguments are not part of this call
    scope = Scope(marking, parent, text, known)
    scope.frame = frame
    scope.callers = lines
    if parent is None and marking.functions:
        scope.entered = enter()
    if text:
        scope.token = marking.open(text)
    thread.scope = scope


def after_forward(module: Any, args: Any, result: Any) -> None:
    """End the range of a call, also of one that has raised; a hook for all modules, called always."""
    if _is_compiling() or _is_tracing():
        return
    scope = found = thread.scope
    while found is not None and found.call.reference() is not module:
        found = found.parent
    if found is None:  # it began when nobody marked
        return
    while scope is not found:
        assert scope is not None
        _close(scope)
        scope = scope.parent
    if found.marking.backward:
        with _NoTorchFunction():
            found.claim(result)
    _close(found)
    thread.scope = found.parent


def _is_inside(frame: Optional[FrameType], scope: Scope) -> bool:
    """Return whether ``frame`` was called, by others perhaps, in the call of the scope's module."""
    called = scope.frame
    while frame is not None and frame is not called:
        frame = frame.f_back
    return frame is not None


def _close(scope: Scope) -> None:
    scope.frame = None
    if scope.text:
        scope.marking.close(scope.token)
    if scope.entered:
        leave()


def _learn(module: Any, parent: Optional[Scope]) -> _Module:
    """Return the name of a module in the model around it; the model itself is called by its class."""
    name = type(module).__name__
    if parent is None:
        for path, inner in module.named_modules():
            if path and id(inner) not in _known:
                _known[id(inner)] = _Module(inner, path)
    else:
        owner = parent.call.reference()
        for key, child in owner._modules.items():
            if child is module:
                name = key if parent.parent is None else f"{parent.call.name}.{key}"
                break
    known = _known[id(module)] = _Module(module, name)
    return known
