"""Ranges around the functions of apex, and around ``forward``, ``backward`` and ``step`` of its classes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from patchcore.plugin import wrap_raw
from torch_markers.ranges import mark_call

__all__ = ["mark_classes", "mark_functions"]

_METHODS = ("forward", "backward", "step")


def mark_functions(module: Any, options: Mapping[str, Any]) -> None:
    """Put a range around each function of ``module``, as :class:`patchcore.Call` calls it.

    Args:
        module: one written in C.
        options: none.
    """
    for name, value in list(vars(module).items()):
        if not name.startswith("_") and inspect.isroutine(value):
            setattr(module, name, wrap_raw(value, mark_call, in_class=False))


def mark_classes(module: Any, options: Mapping[str, Any]) -> None:
    """Put a range around the methods of the classes that a package has, those of its modules too.

    Args:
        module: the package.
        options: none.
    """
    for kind in {id(value): value for value in vars(module).values() if isinstance(value, type)}.values():
        if not kind.__module__.startswith(f"{module.__name__}"):
            continue
        for name in _METHODS:
            if name in vars(kind):
                setattr(kind, name, wrap_raw(vars(kind)[name], mark_call, in_class=True))
