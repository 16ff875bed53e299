"""Layers: what lies on a patched target, from the outermost to the original, as records.

Reads the journal only. Nothing is imported, no source is read and no code of others runs, so that a process can
describe all of its targets each time it writes its report.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, Optional

from patchcore.binding import wrapped_callable
from patchcore.journal import Layer, Record
from patchcore.modules import class_namespace, is_class, namespace
from patchcore.target import ABSENT, Item, Target

__all__ = ["LayerRecord", "Place", "TargetRecord", "describe_layers", "place_of"]


#: Values that are said as they are, up to so many characters.
_PLAIN = (bool, int, float, str, bytes, type(None))
_LONG = 60

_DESCRIPTORS = (staticmethod, classmethod, property, functools.cached_property)


class Place(NamedTuple):
    """Where something is written.

    Args:
        name: ``module:qualname``, or what it is.
        file: its source file, ``None`` when there is none or it is not known.
        line: in that file, counted from 1; ``None`` when it is not known: before Python 3.13, classes do not say.
    """

    name: str
    file: Optional[str] = None
    line: Optional[int] = None

    def __str__(self) -> str:
        if self.file is None:
            return self.name
        return f"{self.name} ({self.file}{'' if self.line is None else f':{self.line}'})"


class LayerRecord(NamedTuple):
    """What one change put over what was there.

    Args:
        patch: name of the patch; ``None`` for a value that somebody else put there.
        kind: of the change, see :class:`patchcore.report.ChangeRecord`; empty like ``patch``.
        plugin, distribution, version: who contributes the patch; ``distribution`` is ``None`` for local code.
        place: where the new behaviour is written.
    """

    patch: Optional[str]
    kind: str
    plugin: str
    distribution: Optional[str]
    version: Optional[str]
    place: Place


class TargetRecord(NamedTuple):
    """A patched target.

    Args:
        target: name of its slot.
        layers: from the outermost to the one next to the original.
        original: what was there first.
    """

    target: str
    layers: tuple[LayerRecord, ...]
    original: Place

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view."""
        layers = [{**layer._asdict(), "place": layer.place._asdict()} for layer in self.layers]
        return {"target": self.target, "layers": layers, "original": self.original._asdict()}


def describe_layers(records: Iterable[Record]) -> list[TargetRecord]:
    """Return what lies on patched slots.

    Args:
        records: of the journal; those without layers are passed over.
    """
    found = []
    for record in records:
        layers = tuple(map(_describe, reversed(list(record.layers))))
        if layers:
            found.append(TargetRecord(record.slot.name, layers, place_of(record.original)))
    return found


def place_of(obj: Any) -> Place:
    """Return where ``obj``, a raw value of a slot, is written; nothing is imported for it.

    What a decorator has put around a function (``__wrapped__``, ``functools.partial``) is looked through.
    """
    if obj is ABSENT:
        return Place("nothing")
    return _written(_innermost(_callable(obj)))


def _written(obj: Any) -> Place:
    kind = type(obj)  # isinstance would ask a proxy for its class
    if issubclass(kind, ModuleType):
        return Place(f"module {obj.__name__}", _text((namespace(obj) or {}).get("__file__")))
    if kind is FunctionType:
        code: CodeType = obj.__code__
        return Place(f"{obj.__module__}:{obj.__qualname__}", code.co_filename, code.co_firstlineno)
    if is_class(obj):
        own = class_namespace(obj)
        module = _text(own.get("__module__")) or "builtins"
        line = own.get("__firstlineno__")  # since Python 3.13
        file = _text((namespace(sys.modules.get(module)) or {}).get("__file__"))
        return Place(f"{module}:{type.__dict__['__qualname__'].__get__(obj)}", file, line if file else None)
    if kind is BuiltinFunctionType:
        return Place(f"{obj.__module__ or 'builtins'}:{obj.__qualname__}")
    if kind in _PLAIN:
        text = repr(obj)
        return Place(text if len(text) <= _LONG else f"{text[:_LONG]}...")
    return Place(f"a {kind.__name__} object")


def _callable(raw: Any) -> Any:
    return wrapped_callable(raw) if issubclass(type(raw), _DESCRIPTORS) else raw


def _describe(layer: Layer) -> LayerRecord:
    if layer.owner is None:
        return LayerRecord(None, "", "", None, None, place_of(layer.product))
    who = layer.owner.provenance
    source = layer.change.source
    if not layer.change.makes_product:
        place = place_of(layer.product)
    elif isinstance(source, Target):
        place = _place_of_target(source, layer.product)
    else:
        place = place_of(source)
    return LayerRecord(layer.owner.patch.name, layer.change.kind, who.plugin, who.distribution, who.version, place)


def _place_of_target(target: Target, product: Any) -> Place:
    """Where what a target means is written, as far as that can be told without asking anybody; else the product."""
    found: Any = sys.modules.get(target.pin().module)
    for step in target.pin().path:
        space = class_namespace(found) if is_class(found) else namespace(found) or {}
        if isinstance(step, Item) or step not in space:
            return Place(str(target))
        found = space[step]
    if issubclass(type(found), ModuleType):  # a plugin's change names no more than that
        return _written(_callable(product))
    return place_of(found)


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
