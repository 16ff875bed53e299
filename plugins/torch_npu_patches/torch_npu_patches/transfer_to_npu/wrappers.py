"""Wraps callables so that one argument of each call is rewritten.

A wrapper is one plain Python function around the original, which ``torch.compile`` can inline and ``pickle`` finds
under the name it has in torch. A call with several such arguments goes through as many wrappers.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Optional

import patchcore as pc
from patchcore.plugin import signature_of
from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.audit import Place
from torch_npu_patches.transfer_to_npu.devices import Translator, npu_device, npu_devices
from torch_npu_patches.wrapping import mark_wrapper

__all__ = ["Argument", "counting", "rewriting", "rewriting_class", "rewritten_class", "under_the_name"]

#: The classes that :func:`rewriting_class` has made.
_MADE: weakref.WeakSet[type] = weakref.WeakSet()


class Argument(NamedTuple):
    """An argument that is rewritten.

    Args:
        name: its keyword.
        translate: returns the value for an NPU, ``None`` if it stays.
        position: its place among the positional arguments, ``self`` counted, for callables that do not tell their
            parameters: those written in C, and classes. ``None`` where it is passed by keyword only.
    """

    name: str
    translate: Translator = npu_device
    position: Optional[int] = None

    @property
    def number_types(self) -> tuple[type, ...]:
        """Types of values that stay and mean CUDA devices: numbers, and lists of numbers."""
        types: dict[Translator, tuple[type, ...]] = {npu_device: (int,), npu_devices: (int, list, tuple)}
        return types.get(self.translate, ())


def rewriting(
    original: Callable[..., Any], arguments: Iterable[Argument], group: str, target: pc.Target
) -> Callable[..., Any]:
    """Return ``original`` with some arguments rewritten; a default that names CUDA is, too.

    Args:
        original: the function that is called in the end.
        arguments: which arguments.
        group: name of the patch, for the audit.
        target: where the wrapper is put; it is pickled, and shown, under that name.
    """
    made = original
    for argument in arguments:
        position, default = _parameter(original, argument)
        place = Place(group, str(target), argument.name)
        if position is None and default is None:
            wrapper = _rewriting_keyword(made, argument, place)
        else:
            wrapper = _rewriting_argument(made, argument, place, position, default)
        mark_wrapper(wrapper, made)
        made = under_the_name(wrapper, original, target)
    return made


def counting(
    found: Callable[..., Any], arguments: Sequence[Argument], group: str, target: pc.Target, got: Optional[str] = None
) -> Any:
    """Return ``found`` with some arguments rewritten, and every call by the program counted.

    Args:
        found: a function of torch.npu that takes the place of one of torch.cuda, or one of torch that means CUDA.
        arguments: which arguments; the first one is shown in reports.
        group, target: see :func:`rewriting`.
        got: shown in reports as the answer to a call without arguments, by default the function of torch.npu.
    """
    if not arguments:
        note_call = audit.counter_of(Place(group, str(target), "")).note_call

        def called(*args: Any, **kwargs: Any) -> Any:
            note_call(None, got)
            return found(*args, **kwargs)

        mark_wrapper(called, found)
        return under_the_name(called, found, target)
    inner = rewriting(found, arguments[1:], group, target)
    name, translate, _ = arguments[0]
    position, _ = _parameter(found, arguments[0])
    first = 1 << 30 if position is None else position  # more than any call has
    note_device = audit.counter_of(Place(group, str(target), name)).note_call

    def called_with_device(*args: Any, **kwargs: Any) -> Any:
        before = args[first] if len(args) > first else kwargs.get(name)
        after = None if before is None else translate(before)
        note_device(None if after is None and type(before) is not int else before, after)
        if after is None:
            return inner(*args, **kwargs)
        if len(args) > first:
            return inner(*args[:first], after, *args[first + 1 :], **kwargs)
        kwargs[name] = after
        return inner(*args, **kwargs)

    mark_wrapper(called_with_device, inner)
    return under_the_name(called_with_device, found, target)


def rewriting_class(
    original: type, arguments: Iterable[Argument], group: str, target: pc.Target, *, count_calls: bool = False
) -> type:
    """Return a class that makes instances of ``original``, with some arguments of the call rewritten.

    For classes in which nothing can be put, those written in C. ``isinstance`` and ``issubclass`` answer as they do
    for ``original``; a class derived from the one returned is a class of its own, derived from ``original``.

    Args:
        original, arguments, group, target: see :func:`rewriting`.
        count_calls: count every call by the program, see :func:`counting`.
    """
    kind = type(original)

    class Rewriting(kind):  # type: ignore[misc, valid-type]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original) if cls is made else kind.__instancecheck__(cls, instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original) if cls is made else kind.__subclasscheck__(cls, subclass)

    def plain(cls: type, *args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs) if cls is made else kind.__call__(cls, *args, **kwargs)

    shifted = [a._replace(position=None if a.position is None else a.position + 1) for a in arguments]
    construct = (counting if count_calls else rewriting)(plain, shifted, group, target)
    Rewriting.__call__ = construct  # itself: the audit looks for the frame that calls it
    namespace = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        "__slots__": (),
    }
    made: type = Rewriting(original.__name__, (original,), namespace)
    _MADE.add(made)
    return made


def rewritten_class(made: Any) -> Any:
    """Return the class whose instances a class of :func:`rewriting_class` makes; any other object itself."""
    return made.__mro__[1] if made in _MADE else made


def under_the_name(function: Any, original: Any, target: pc.Target) -> Any:
    """Give ``function`` the documentation of ``original`` and the name it is found under in torch; return it.

    Attributes of the original stay behind: frameworks keep per-function state there that is wrong for any other. Those
    of :func:`functools.lru_cache` do not: callers clear the cache by them.
    """
    functools.update_wrapper(function, original, updated=())
    for name in ("cache_info", "cache_clear", "cache_parameters"):
        if hasattr(original, name):
            setattr(function, name, getattr(original, name))
    function.__module__ = target.module
    function.__qualname__ = ".".join(map(str, target.path))
    return function


def _rewriting_keyword(original: Callable[..., Any], argument: Argument, place: Place) -> Callable[..., Any]:
    name, translate, number_types = argument.name, argument.translate, argument.number_types
    counter = audit.counter_of(place)
    note, note_number = counter.note, counter.note_number

    def rewritten(*args: Any, **kwargs: Any) -> Any:
        if name in kwargs:
            before = kwargs[name]
            after = translate(before)
            if after is not None:
                note(before, after)
                kwargs[name] = after
            elif type(before) in number_types:
                note_number(before)
        return original(*args, **kwargs)

    return rewritten


def _rewriting_argument(
    original: Callable[..., Any], argument: Argument, place: Place, position: Optional[int], default: Any
) -> Callable[..., Any]:
    name, translate, number_types = argument.name, argument.translate, argument.number_types
    counter = audit.counter_of(place)
    note, note_number = counter.note, counter.note_number
    first = 1 << 30 if position is None else position  # more than any call has

    def rewritten(*args: Any, **kwargs: Any) -> Any:
        if len(args) > first:
            before = args[first]
            after = translate(before)
            if after is not None:
                note(before, after)
                args = (*args[:first], after, *args[first + 1 :])
            elif type(before) in number_types:
                note_number(before)
        else:
            before = kwargs.get(name, default)
            after = translate(before)
            if after is not None:
                note(before, after)
                kwargs[name] = after
            elif type(before) in number_types:
                note_number(before)
        return original(*args, **kwargs)

    return rewritten


def _parameter(original: Any, argument: Argument) -> tuple[Optional[int], Any]:
    """Return the position of ``argument`` in calls of ``original``, and its default where that is to be rewritten.

    Functions written in Python are inspected, so that the answer is right in every version of torch.
    """
    try:
        parameters = signature_of(original).parameters
    except (TypeError, ValueError):  # it is written in C
        return argument.position, None
    found = parameters.get(argument.name)
    if found is None:  # (*args, **kwargs)
        return argument.position, None
    by_position = found.kind in (found.POSITIONAL_ONLY, found.POSITIONAL_OR_KEYWORD)
    position = list(parameters).index(argument.name) if by_position else None
    default = None if found.default is found.empty else found.default
    return position, default if argument.translate(default) is not None else None
