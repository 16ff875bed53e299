"""Finds the definition of a replacement in the source of its module, which is not imported."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, Optional

from patchcore.builtin.drift.definitions import Definition, Sources
from patchcore.declare.changes import Change
from patchcore.declare.target import Target
from patchcore.errors import TargetNotFound, Unseen
from patchcore.objects.modules import is_class

__all__ = ["definition_of", "function_of", "source_of"]


def source_of(change: Change) -> Any:
    """Return the replacement or the wrapper of a change, the function of a triton kernel."""
    found = change.source
    if type(found) is Target or type(found) is FunctionType or is_class(found):
        return found
    inner = inspect.getattr_static(found, "fn", None)  # reads no attribute of a proxy
    return inner if type(inner) is FunctionType else found


def function_of(change: Change) -> Optional[FunctionType]:
    """Return the replacement of a change if it is a Python function that exists already."""
    found = source_of(change)
    return found if type(found) is FunctionType else None


def definition_of(change: Change, sources: Sources) -> Optional[Definition]:
    """Return the definition of the replacement or wrapper of a change, ``None`` if no source shows it.

    Args:
        change: a target that names its replacement is read from the file of its module.
        sources: where to look.
    """
    target = _named(source_of(change))
    if target is None:
        return None
    try:
        return sources.locate(target)
    except (Unseen, TargetNotFound, RecursionError):
        return None


def _named(replacement: Any) -> Optional[Target]:
    if type(replacement) is Target:
        return replacement if replacement.module else None
    if type(replacement) is not FunctionType and not is_class(replacement):  # a proxy would run its code
        return None
    module, name = getattr(replacement, "__module__", None), getattr(replacement, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name or not name:
        return None
    path = tuple(name.split("."))
    if type(replacement) is FunctionType and path[1:] and path[-1] != replacement.__code__.co_name:
        path = path[:-1]  # @patch and @wrap name the function after the attribute of their patch
    return Target(module, path)
