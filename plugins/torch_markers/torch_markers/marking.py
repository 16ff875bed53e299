"""The options and the backend that mark now.

Imported when markers are applied: needs torch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, Optional

import torch

from torch_markers import private_torch
from torch_markers.arguments import describe_arguments
from torch_markers.backends import Backend
from torch_markers.callers import callers
from torch_markers.naming import Naming, naming_of
from torch_markers.options import MarkerOptions
from torch_markers.scopes import BackwardPass, thread

__all__ = ["Marking", "active", "put_in_force", "run_backward"]

_is_compiling = torch.compiler.is_compiling
_is_tracing = private_torch.is_tracing
_NoTorchFunction = private_torch.DisableTorchFunction

_PASS = "{'dir':'bwd','mod':'torch.autograd','op':'backward'}"


class Marking:
    """One application of markers; the :class:`torch_markers.Marker` in force.

    Args:
        options: of the marking.
        backend: where ranges go.
    """

    def __init__(self, options: MarkerOptions, backend: Backend) -> None:
        self.options = options
        self.backend = backend
        self.open = backend.open
        self.close = backend.close
        self.idle = backend.idle
        self.modules = options.modules
        self.functions = options.functions
        self.stacks = options.stacks
        self.arguments = options.arguments
        self.backward = options.backward
        #: False once it is over: graphs that were made under it may be run still.
        self.on = True

    def ready(self) -> bool:
        """Return whether ranges are made now: not while the program is traced, and not if no tool records."""
        return not (_is_compiling() or _is_tracing() or (self.idle is not None and self.idle()))

    def call(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the text for a call of a wrapped function."""
        with _NoTorchFunction():
            return self.text(naming_of(function), args, kwargs, sys._getframe(1))

    def text(self, naming: Naming, args: Any, kwargs: Mapping[str, Any], frame: Optional[FrameType]) -> str:
        """Return the text for a call. To be called where torch dispatches to no Python.

        Args:
            naming: of the called function.
            args, kwargs: its arguments.
            frame: in which it is called.
        """
        text = naming.text
        if self.arguments:
            text = f"{text},'args':{describe_arguments(naming.parameters, args, kwargs)}"
        if self.stacks:
            text = f"{text},'traceMarker':[{callers(frame, thread.scope)[:-1]}]"
        return text + "}"


#: The marking in force, ``None`` for none.
active: Optional[Marking] = None


def put_in_force(marking: Optional[Marking]) -> None:
    """Mark with ``marking`` from now on, ``None`` for not at all; the earlier marking ends."""
    global active
    ended, active = active, marking
    if ended is not None and ended is not marking:
        ended.on = False
        ended.backend.finish()


def run_backward(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrapper of the call of the engine: a range around each backward pass, and nothing left open after it."""
    marking = active
    if marking is None or not marking.backward or not marking.ready():
        return original(*args, **kwargs)
    started = BackwardPass(marking)
    token = marking.open(_PASS)
    thread.passes.append(started)
    try:
        return original(*args, **kwargs)
    finally:
        thread.passes.remove(started)
        started.switch(None)
        marking.close(token)
