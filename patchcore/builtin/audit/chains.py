"""Chains of wrappers: the functions from the value in a patched place down to the original.

A layer is one of them as a program can find it again: a function or class that a module has under a name, or a wrapper
that a function of a module makes of what is below: ``traced`` of ``lib.price = traced(lib.price)``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Optional

from patchcore.builtin.audit.owners import owner_of
from patchcore.objects.modules import ABSENT, class_namespace, closed_over, is_class, namespace_of, qualified_name

__all__ = ["Layer", "chain_to", "contents_of", "layers_of", "reference_to", "repeated"]

#: How many objects are looked at for one chain.
_MOST = 400
_FORMS = (staticmethod, classmethod)
#: How many layers of one place are followed.
_MOST_LAYERS = 50
_LOCALS = ".<locals>."
_VARIABLE_PARAMETERS = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS of CPython's Include/cpython/code.h


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


class Layer(NamedTuple):
    """Code in a patched place.

    Args:
        owner: the distribution that defines it.
        reference: ``shop.patches:price``; with ``()`` at its end if it is a function that makes the code of what was in
            the place before: ``shop.patches:traced()``.
        code: the code itself.
    """

    owner: str
    reference: str
    code: Any


def reference_to(value: Any, target: str) -> str:
    """Return where a program can find code that was put in a place: ``shop.patches:price``.

    Args:
        value: a function or class.
        target: the place, which does not count.

    Returns:
        Empty for code that no name of its module leads to: a closure, a lambda, a partial object; and for code of the
        program's own file, which nothing can import. A name in the patched library is none: it may hold the code
        because of the patch.
    """
    package = target.partition(":")[0].partition(".")[0]
    for module in _homes(value, package):
        space = namespace_of(sys.modules.get(module))
        if module == "__main__" or space is None:
            continue
        names = [qualified_name(value)[1], *(name for name, found in list(space.items()) if found is value)]
        for name in names:
            if name and f"{module}:{name}" != target and _found(space, name) is value:
                return f"{module}:{name}"
    return ""


def _homes(value: Any, package: str) -> list[str]:
    """Return the modules in which an object may have a name."""
    if type(value) is FunctionType:
        own = str(value.__globals__.get("__name__", ""))
        # functools.wraps sets __module__: to the module of a decorated function, or to that of a patched one
        return [own, *(module for module in [value.__module__ or ""] if module.partition(".")[0] != package)]
    if is_class(value):
        return [qualified_name(value)[0]]
    named = [qualified_name(value)[0], qualified_name(type(value))[0]]
    return [module for module in named if module.partition(".")[0] not in (package, "builtins")]


def contents_of(name: str) -> list[str]:
    """Return what is in a module that a program made, and in those inside it, a line each.

    ``tool.fast`` for a module, ``tool.fast:attend shop.kernels:attend`` for a name in it with the place of its code,
    and ``tool.fast:attend`` if no name leads to that.

    Args:
        name: of the module.

    Returns:
        Nothing for a module with a class of its own, whose code may find names that are not there.
    """
    plain = {
        each: module
        for each, module in sorted(sys.modules.items())
        if f"{each}.".startswith(f"{name}.") and type(module) is ModuleType
    }
    lines = []
    for module, made in plain.items() if name in plain else ():
        lines.append(module)
        for key, value in list((namespace_of(made) or {}).items()):
            if not key.startswith("__") and plain.get(f"{module}.{key}") is not value:
                target = f"{module}:{key}"
                lines.append(f"{target} {reference_to(value, target)}".rstrip())
    return lines


def layers_of(value: Any, original: Any, target: str) -> tuple[Layer, ...]:
    """Return the layers between the code in a place and its original, the first that was applied first.

    Args:
        value: what is in the place now.
        original: what was there; ``ABSENT`` if nothing was.
        target: the place.

    Returns:
        Nothing if one of them cannot be found again by a name, or if they lead to other code than the original.
    """
    layers: list[Layer] = []
    bottom = _bare(original)
    while len(layers) < _MOST_LAYERS:
        value = _bare(value)
        if value is bottom:
            return tuple(reversed(layers))
        reference = reference_to(value, target)
        if reference:  # replaces what is below, or calls it by itself
            return tuple(reversed([*layers, Layer(owner_of(value), reference, value)]))
        made = _made_by(value)
        if made is None or original is ABSENT:
            return ()
        reference, below = made
        layers.append(Layer(owner_of(value), f"{reference}()", value))
        if below is ABSENT:  # it does not call what is below
            return tuple(reversed(layers))
        value = below
    return ()


def _made_by(value: Any) -> Optional[tuple[str, Any]]:
    """Return the function that has made a closure of one argument, and that argument.

    ``None`` if it was not made so; the argument is ``ABSENT`` if the closure does not keep it. A closure that keeps
    anything else that was given to the function cannot be made again by calling it with one argument.
    """
    if type(value) is not FunctionType:
        return None
    code = value.__code__
    name = getattr(code, "co_qualname", "")  # 3.11; functools.wraps changes that of the function
    module = str(value.__globals__.get("__name__", ""))
    space = namespace_of(sys.modules.get(module))
    if space is None or module == "__main__":
        return None
    for place in [name.rpartition(_LOCALS)[0]] if name else _makers_in(space, code):
        maker = _bare(_found(space, place))
        if type(maker) is FunctionType and reference_to(maker, "") and code in maker.__code__.co_consts:
            kept = _argument(maker, value)
            return None if kept is None else (f"{module}:{place}", kept[0])
    return None


def _makers_in(space: Mapping[str, Any], code: CodeType) -> list[str]:
    """Return the names of functions of a module that contain ``code``, for Pythons without ``co_qualname``."""
    return [
        name
        for name, found in list(space.items())
        if type(found) is FunctionType and any(code is each for each in found.__code__.co_consts)
    ]


def _argument(maker: FunctionType, value: FunctionType) -> Optional[tuple[Any]]:
    """Return the only argument that ``maker`` was called with to make ``value``; ``None`` if it had others."""
    code = maker.__code__
    defaults = maker.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    required = names[: len(names) - len(defaults)]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    optional = {**dict(zip(names[len(required) :], defaults)), **(maker.__kwdefaults__ or {})}
    if code.co_flags & _VARIABLE_PARAMETERS or not names or len(required) > 1 or set(keyword_only) - set(optional):
        return None
    argument: Any = ABSENT
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
        try:
            kept = cell.cell_contents
        except ValueError:  # it was deleted
            return None
        if name == names[0]:
            argument = kept
        elif name in optional and kept is not optional[name]:
            return None
    return (argument,)


def _found(space: Mapping[str, Any], name: str) -> Any:
    first, *rest = name.split(".")
    value: Any = space.get(first)
    for each in rest:
        value = class_namespace(value).get(each) if is_class(value) else None
        value = value.__func__ if type(value) is staticmethod else value
    return value
