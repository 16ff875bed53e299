"""Places of objects in source files, and differences of two sources, as texts for people."""

from __future__ import annotations

import functools
import sys
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, Optional

from patchcore.objects.binding import wrapped_callable
from patchcore.objects.modules import ABSENT, class_namespace, is_class, namespace_of

__all__ = ["Place", "difference", "place_in_source", "place_of"]

#: Types of values that are shown as they are, and the most characters of such a value.
_PLAIN = (bool, int, float, str, bytes, type(None))
_LONG = 60

_DESCRIPTORS = (staticmethod, classmethod, property, functools.cached_property)
_OF_CLASSES_IN_C = (MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType)


class Place(NamedTuple):
    """Where something is written.

    Args:
        name: ``module:qualname``, or a description.
        file: its source file, ``None`` if there is none or it is not known.
        line: in that file, counted from 1; ``None`` if it is not known: before Python 3.13, classes do not have it.
    """

    name: str
    file: Optional[str] = None
    line: Optional[int] = None

    def __str__(self) -> str:
        if self.file is None:
            return self.name
        return f"{self.name} ({self.file}{'' if self.line is None else f':{self.line}'})"


def place_of(obj: Any) -> Place:
    """Return where ``obj``, a raw value of a slot, is written; nothing is imported for it.

    For a function in a decorator or a partial object (``__wrapped__``, ``functools.partial``), it is the inner one.
    """
    if obj is ABSENT:
        return Place("nothing")
    return _written(_innermost(_callable(obj)))


def _written(obj: Any) -> Place:
    kind = type(obj)  # isinstance would read the __class__ of a proxy
    if issubclass(kind, ModuleType):
        return Place(f"module {obj.__name__}", _text((namespace_of(obj) or {}).get("__file__")))
    if kind is FunctionType:
        code: CodeType = obj.__code__
        return Place(f"{obj.__module__}:{obj.__qualname__}", code.co_filename, code.co_firstlineno)
    if is_class(obj):
        own = class_namespace(obj)
        module = _text(own.get("__module__")) or "builtins"
        line = own.get("__firstlineno__")  # since Python 3.13
        file = _text((namespace_of(sys.modules.get(module)) or {}).get("__file__"))
        return Place(f"{module}:{type.__dict__['__qualname__'].__get__(obj)}", file, line if file else None)
    if kind is BuiltinFunctionType:
        return Place(f"{obj.__module__ or 'builtins'}:{obj.__qualname__}")
    if kind in _OF_CLASSES_IN_C:
        return Place(f"{_written(obj.__objclass__).name}.{obj.__name__}")
    if kind in _PLAIN:
        text = repr(obj)
        return Place(text if len(text) <= _LONG else f"{text[:_LONG]}...")
    return Place(f"a {kind.__name__} object")


def _callable(raw: Any) -> Any:
    return wrapped_callable(raw) if issubclass(type(raw), _DESCRIPTORS) else raw


def place_in_source(obj: Any) -> Place:
    """Return where ``obj``, a raw value of a slot, is written; sources are read for a line that it does not have."""
    from patchcore.stdlib import inspect  # for those who read sources

    place = place_of(obj)
    value = _innermost(_callable(obj))
    if place.line is not None or issubclass(type(value), ModuleType):
        return place
    try:
        return Place(place.name, inspect.getsourcefile(value), inspect.getsourcelines(value)[1])
    except (TypeError, OSError):
        return place


def difference(original: Any, replacement: Any) -> str:
    """Return how the sources of two objects differ, as ``diff -u`` does; empty where one of them has none."""
    from patchcore.stdlib import difflib

    before, after = _source(original), _source(replacement)
    if before is None or after is None:
        return ""
    return "\n".join(difflib.unified_diff(before, after, "original", "replacement", lineterm="", n=2))


def _source(value: Any) -> Optional[list[str]]:
    from patchcore.stdlib import inspect, textwrap

    try:
        return textwrap.dedent(inspect.getsource(value)).splitlines()
    except (TypeError, OSError):
        return None


def _innermost(obj: Any) -> Any:
    seen = set()
    while id(obj) not in seen:
        seen.add(id(obj))
        if type(obj) is FunctionType:
            obj = obj.__dict__.get("__wrapped__", obj)
        elif type(obj) is functools.partial:
            obj = obj.func
    return obj


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None
