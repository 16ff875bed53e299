"""Chains of wrappers: the functions from the value in a patched place down to the original."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from patchcore.objects.modules import closed_over, is_class, namespace_of

__all__ = ["chain_to", "repeated"]

#: How many objects are looked at for one chain.
_MOST = 400
_FORMS = (staticmethod, classmethod)


def chain_to(value: Any, original: Any) -> list[FunctionType]:
    """Return the Python functions from ``value`` to ``original``, without that; empty if it does not lead there.

    Closures, ``__wrapped__``, partial objects, attributes of callable objects and defaults are followed.
    """
    wanted = id(_bare(original))
    parents: dict[int, tuple[Any, Any]] = {id(value): (value, None)}
    todo = [value]
    while todo and len(parents) < _MOST:
        found = todo.pop(0)
        if id(_bare(found)) == wanted:
            return list(reversed(list(_functions(found, parents))))
        for inner in _inner(found):
            if id(inner) not in parents:
                parents[id(inner)] = inner, found
                todo.append(inner)
    return []


def _functions(found: Any, parents: dict[int, tuple[Any, Any]]) -> Iterator[FunctionType]:
    """Yield the functions above ``found``, from the inside to the outside."""
    while True:
        found = parents[id(found)][1]
        if found is None:
            return
        if type(found) is FunctionType:
            yield found


def repeated(chain: list[FunctionType]) -> list[CodeType]:
    """Return the code that is in a chain more than once."""
    codes = [function.__code__ for function in chain]
    return [code for place, code in enumerate(codes) if any(code is other for other in codes[:place])]


def _bare(value: Any) -> Any:
    return value.__func__ if type(value) in _FORMS else value


def _inner(value: Any) -> Iterator[Any]:
    """Yield the objects that a call of ``value`` may call."""
    kind = type(value)
    if kind is FunctionType:
        found = [*value.__dict__.values(), *closed_over(value), *(value.__defaults__ or ())]
        for each in found:
            yield from _called(each)
    elif kind in (*_FORMS, MethodType):
        yield value.__func__
        if kind is MethodType:
            yield value.__self__
    elif kind is property:
        yield from filter(None, (value.fget, value.fset))
    elif kind is functools.partial:
        yield from (value.func, *filter(callable, value.args))
    elif not is_class(value) and not issubclass(kind, ModuleType):
        for each in list((namespace_of(value) or {}).values())[:60]:
            yield from _called(each)
        wrapped = _wrapped(value)
        if wrapped is not None:
            yield wrapped


def _called(value: Any) -> Iterator[Any]:
    if type(value) in (list, tuple) and len(value) < 20:
        yield from (each for each in value if callable(each))
    elif callable(value) or type(value) in _FORMS:
        yield value


def _wrapped(value: Any) -> Any:
    """Return ``__wrapped__`` of a proxy written in C (wrapt), whose instances have no dictionary of their own."""
    if "__wrapped__" not in dir(type(value)):
        return None
    try:
        return type.__getattribute__(type(value), "__wrapped__").__get__(value)
    except Exception:
        return None
