"""Checks that a replacement accepts every call that its target accepts, by their signatures, before any call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from inspect import Parameter
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, WrapperDescriptorType
from typing import Any, Optional

from patchcore.objects.generated import signature_of

__all__ = [
    "CALLED_AS_DECLARED",
    "alike",
    "misfit",
    "misfit_of",
    "passes_on",
    "signature_without_annotations",
    "takes_anything",
]

_BY_POSITION = Parameter.POSITIONAL_ONLY
#: The types of callables whose signature is their own, and not that of a ``__call__``.
CALLED_AS_DECLARED = (
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    MethodDescriptorType,
    WrapperDescriptorType,
    functools.partial,
    type,
)

_POSITIONAL = (_BY_POSITION, Parameter.POSITIONAL_OR_KEYWORD)
_ANY_NUMBER = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

#: More arguments than any function has parameters, except those with ``*args``.
_MANY = 64

#: Arguments by position, and the names of those by keyword.
Call = tuple[int, tuple[str, ...]]


def misfit(original: Any, replacement: Any, *, bound: bool = False, before: int = 0) -> Optional[str]:
    """Return why ``replacement`` cannot take a call that ``original`` takes, ``None`` when it can take them all.

    A callable without a readable signature (many functions in C) is taken to fit, and so is an object with a
    ``__call__``: it may be a proxy, and reading its signature would load its object. So is any replacement of an
    original that takes ``(*args, **kwargs)``: it passes its arguments on to a function with a stricter signature
    (``apply`` of a ``torch.autograd.Function``), which is not known here.

    Args:
        original: a function, class or other callable, as it is called: a static method without its descriptor.
        replacement: what is called in its place.
        bound: both get the instance or class first, by position; its parameter may have any name.
        before: how many arguments ``replacement`` gets besides, before those of the call: 1 for a wrapper.
    """
    if not issubclass(type(original), CALLED_AS_DECLARED) or not issubclass(type(replacement), CALLED_AS_DECLARED):
        return None
    wanted = signature_without_annotations(original, follow_wrapped=True)
    given = signature_without_annotations(replacement)
    return None if wanted is None or given is None else misfit_of(wanted, given, bound=bound, before=before)


def misfit_of(wanted: inspect.Signature, given: inspect.Signature, *, bound: bool, before: int) -> Optional[str]:
    """Return why a replacement with the signature ``given`` cannot take the calls that ``wanted`` allows.

    Args:
        wanted: of the original, without annotations.
        given: of the replacement.
        bound: see :func:`misfit`.
        before: see :func:`misfit`.
    """
    if takes_anything(wanted, bound):
        return None
    for count, names in _calls(wanted, bound):
        try:
            given.bind(*[None] * (count + before), **dict.fromkeys(names))
        except TypeError as error:
            return f"its signature is {given}, that of the target {wanted}: {error}"
    return None


def alike(original: Any, replacement: Any, before: int = 0) -> bool:
    """True if one plain function clearly takes all calls of another; false if that needs the full comparison.

    Arguments are those of :func:`misfit`.
    """
    if type(original) is not FunctionType or type(replacement) is not FunctionType:
        return False
    if hasattr(original, "__wrapped__") or hasattr(original, "__signature__"):  # reading __dict__ would create one
        return False
    one, other = original.__code__, replacement.__code__
    if one.co_kwonlyargcount or other.co_kwonlyargcount or (one.co_flags | other.co_flags) & _ANY_NUMBER:
        return False
    count = one.co_argcount
    defaults = original.__defaults__
    if count + before != other.co_argcount:
        return False
    if defaults is None:
        return True
    first = count - len(defaults)
    return (
        len(defaults) == len(replacement.__defaults__ or ())
        and other.co_posonlyargcount <= one.co_posonlyargcount + before
        and one.co_varnames[first:count] == other.co_varnames[first + before : count + before]
    )


def passes_on(original: Any, replacement: Any, *, bound: bool, before: int) -> bool:
    """True if a plain function with ``*args`` and ``**kwargs`` clearly takes all calls of another one.

    Arguments are those of :func:`misfit`; false where that is not plain.
    """
    if type(original) is not FunctionType or type(replacement) is not FunctionType:
        return False
    if hasattr(original, "__wrapped__") or hasattr(original, "__signature__") or hasattr(replacement, "__signature__"):
        return False
    wanted, given = original.__code__, replacement.__code__
    if given.co_kwonlyargcount or given.co_flags & _ANY_NUMBER != _ANY_NUMBER:
        return False
    # the instance is by position in every call, unless the original can do without
    first = 1 if bound and wanted.co_argcount > len(original.__defaults__ or ()) else 0
    names = wanted.co_varnames[first : wanted.co_argcount + wanted.co_kwonlyargcount]
    return given.co_argcount <= before + first and set(given.co_varnames[: given.co_argcount]).isdisjoint(names)


def signature_without_annotations(value: Any, *, follow_wrapped: bool = False) -> Optional[inspect.Signature]:
    """Return the signature of a callable, ``None`` if it has none that can be read.

    Args:
        value: to be called.
        follow_wrapped: return that of the function which ``value`` wraps.
    """
    try:
        found = signature_of(value, follow_wrapped=follow_wrapped)
    except Exception:  # of a metaclass or a __signature__, besides those that inspect documents
        return None
    parameters = [p.replace(annotation=Parameter.empty) for p in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=Parameter.empty)


def takes_anything(signature: inspect.Signature, bound: bool) -> bool:
    """Return whether a signature is ``(*args, **kwargs)``.

    Args:
        signature: of a callable.
        bound: a first parameter by position, such as ``self``, does not count.
    """
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if bound and kinds and kinds[0] in _POSITIONAL:
        del kinds[0]
    return kinds == [Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD]


def _calls(signature: inspect.Signature, bound: bool) -> Iterator[Call]:
    """Yield some calls: a callable that accepts these accepts every call that ``signature`` accepts.

    Required arguments are by position, as they are in nearly all calls, so that a replacement may call them by other
    names. Optional ones are left out, by position, and by name. Where there is no end of arguments, there are many.
    """
    parameters = list(signature.parameters.values())
    first = 1 if bound and parameters and parameters[0].kind in _POSITIONAL else 0
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    named = [p for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
    required = [p for p in positional if p.default is Parameter.empty]
    required_names = tuple(p.name for p in named if p.default is Parameter.empty)
    more = ("_patchcore_any_name",) if any(p.kind is Parameter.VAR_KEYWORD for p in parameters) else ()
    further = _MANY if any(p.kind is Parameter.VAR_POSITIONAL for p in parameters) else 0
    yield len(required), required_names
    yield len(positional) + further, (*(p.name for p in named), *more)
    yield (
        len(required),
        (*(p.name for p in positional[max(first, len(required)) :] if p.kind is not _BY_POSITION), *required_names),
    )
