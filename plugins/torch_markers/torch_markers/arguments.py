"""Describes the arguments of a call in a range: names, types, shapes, dtypes and values.

A tensor is described by type, shape and dtype; no element is read, so nothing waits for a device, and tensors that have
no elements (meta, fake, inside of vmap) are described like others. Nothing that an argument's class defines is called.
Imported when markers are applied: needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_markers.text import quote, scalar

__all__ = ["describe_arguments"]

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_PLAIN = (_Tensor, _Parameter)
_NAMED_BY_TEXT = (torch.dtype, torch.device, torch.layout, torch.memory_format)

#: So many items of a container are told, so deep.
_ITEMS = 8
_DEPTH = 2
#: So many different descriptions are kept.
_KEPT = 10_000

_tensors: dict[Any, str] = {}
_keywords: dict[str, str] = {}


def describe_arguments(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the arguments of a call as a list of objects. To be called where torch dispatches to no Python.

    Args:
        names: of the positional arguments, as far as they are known.
        args, kwargs: of the call.
    """
    parts = []
    known = len(names)
    for index, value in enumerate(args):
        if index < known:
            parts.append(f"{{'name':'{names[index]}',{_described(value, 0)}}}")
        else:
            parts.append(f"{{{_described(value, 0)}}}")
    for keyword, value in kwargs.items():
        name = _keywords.get(keyword)
        if name is None:
            name = _remember(_keywords, keyword, quote(keyword))
        parts.append(f"{{'name':{name},{_described(value, 0)}}}")
    return f"[{','.join(parts)}]"


def _described(value: Any, depth: int) -> str:
    """The members of an object that tells about ``value``."""
    kind = type(value)
    if kind in _PLAIN:
        try:
            key = (value.shape, value.dtype, kind)
            known = _tensors.get(key)
            return _remember(_tensors, key, _tensor(value)) if known is None else known
        except Exception:  # a shape of symbols has no hash
            return _tensor(value)
    told = scalar(value)
    if told is not None:
        return f"'type':'{kind.__name__}','value':{told}" if kind.__name__.isidentifier() else f"'value':{told}"
    if issubclass(kind, _Tensor):
        return _tensor(value)
    if issubclass(kind, (list, tuple)):
        return f"'type':{quote(kind.__name__)},'value':{_items(value, depth)}"
    if issubclass(kind, _NAMED_BY_TEXT):
        return f"'type':'{kind.__name__}','value':{quote(str(value))}"
    if kind is slice:
        return f"'type':'slice','value':{_items((value.start, value.stop, value.step), depth)}"
    if kind is torch.Size:
        return f"'type':'Size','value':{_items(value, depth)}"
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return f"'type':'ndarray','shape':{_shape(value)},'dtype':{quote(str(value.dtype))}"
    return f"'type':{quote(kind.__name__)}"


def _items(values: Sequence[Any], depth: int) -> str:
    if depth == _DEPTH:
        return "'...'"
    # The methods of the built-in type, because a subclass may define its own.
    base: type[Sequence[Any]] = list if issubclass(type(values), list) else tuple
    count = base.__len__(values)
    parts = []
    for index in range(min(count, _ITEMS)):
        item = base.__getitem__(values, index)
        told = scalar(item)
        parts.append(f"{{{_described(item, depth + 1)}}}" if told is None else told)
    if count > _ITEMS:
        parts.append(f"'... {count} in all'")
    return f"[{','.join(parts)}]"


def _tensor(value: Any) -> str:
    text = f"'type':{quote(type(value).__name__)}"
    try:
        if not value.is_nested:  # asking for a shape that there is not raises
            text += f",'shape':{_shape(value)}"
        return f"{text},'dtype':'{str(value.dtype)[6:]}'"
    except Exception:  # a subclass that knows neither
        return text


def _shape(value: Any) -> str:
    sizes = (scalar(size) if type(size) is int else quote(str(size)) for size in value.shape)
    return f"[{','.join(map(str, sizes))}]"


def _remember(table: dict[Any, str], key: Any, text: str) -> str:
    if len(table) >= _KEPT:
        table.clear()
    table[key] = text
    return text
