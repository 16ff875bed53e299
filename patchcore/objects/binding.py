"""Makes the new value of a slot: a callable in the form of the old value, with a way to the original.

The raw value of a slot decides how it is called: a ``staticmethod`` gets no ``self``, a property is read, a builtin in
a class body is not bound. Functions here put a new callable into the same form. No proxy is on the call path: a
replacement is the object itself, a wrapper is one plain Python function.
"""

from __future__ import annotations

import copy
import functools
import sys
import weakref
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, Callable, Optional

from patchcore.errors import DeclarationError
from patchcore.objects import generated
from patchcore.objects.bodies import Body, set_marks
from patchcore.objects.descriptors import FORMS, UNBOUND, call_of, goes_its_own_way, rebuilt, stand_in
from patchcore.objects.extensions import in_use
from patchcore.objects.modules import attribute, class_namespace, is_class, namespace_of, passes_for

if TYPE_CHECKING:
    from patchcore.objects.counting import Counter

__all__ = [
    "bind_like",
    "copy_metadata",
    "count",
    "dispatched_body",
    "find_named",
    "has_identity",
    "held_value",
    "helpers",
    "make_dispatcher",
    "named",
    "passing_body",
    "unmark",
    "wrap_raw",
    "wrapped_body",
    "wrapped_callable",
]

# callables that a function can replace without loss: no classes, partials, caches or objects with a __call__
_COUNTED = (FunctionType, BuiltinFunctionType, MethodType, MethodDescriptorType, WrapperDescriptorType)
# attributes that a callable object has from its class and that can be read without running code written in Python
_HELPERS = (
    FunctionType,
    MethodDescriptorType,
    ClassMethodDescriptorType,
    staticmethod,
    classmethod,
    MemberDescriptorType,
    GetSetDescriptorType,
)
# attributes by which inspect and asyncio recognise coroutine functions, besides the flags of their code
_MARKS = ("_is_coroutine", "_is_coroutine_marker", "__partialmethod__")

#: By function that patchcore put in a slot: the functions that undo its marks.
_undo: weakref.WeakKeyDictionary[FunctionType, list[Callable[[], Any]]] = weakref.WeakKeyDictionary()


def held_value(raw: Any) -> Any:
    """Return the object that a by-value reference to the slot holds: the function in a static method, else ``raw``.

    Examples:
        >>> from patchcore.plugin import held_value
        >>> held_value(staticmethod(len))
        <built-in function len>
    """
    return staticmethod.__func__.__get__(raw) if issubclass(type(raw), staticmethod) else raw


def find_named(module: str, qualname: str) -> Any:
    """Return the object that a loaded module has under a qualified name, ``None`` for none; runs no code."""
    value: Any = sys.modules.get(module)
    for name in qualname.split("."):
        space = class_namespace(value) if is_class(value) else namespace_of(value) or {}
        value = held_value(space.get(name))
    return value


def has_identity(value: Any) -> bool:
    """Return whether two names that hold ``value`` hold it because one took it from the other.

    True of functions, classes, modules and other callables; false of numbers, texts and the like, which Python shares.
    """
    return callable(value) or issubclass(type(value), ModuleType)


def bind_like(raw: Any, value: Any, *, in_class: bool) -> Any:
    """Return ``value`` in the form in which ``raw`` stands in its slot, so that it is called in the same way.

    A value that already is a descriptor object is taken as it is. ``in_class`` is true if the slot belongs to a
    class, where a plain function would be bound and a builtin would not.

    Examples:
        >>> from patchcore.plugin import bind_like
        >>> bind_like(staticmethod(len), min, in_class=True).__func__
        <built-in function min>
    """
    if not in_class or issubclass(type(value), FORMS) or not callable(value) or passes_for(value, type):
        return value
    kind = type(raw)  # isinstance would wake a lazy module
    if issubclass(kind, FORMS):
        return rebuilt(raw, value)
    if kind is ClassMethodDescriptorType:
        return classmethod(value)
    if kind is GetSetDescriptorType or kind is MemberDescriptorType:
        return property(value, raw.__set__, raw.__delete__)
    if callable(raw) and _is_bound(raw) != _is_bound(value):
        return staticmethod(value) if _is_bound(value) else _as_function(value)
    return value


def named(value: Any, owner: type, name: str, *, mine: bool) -> Any:
    """Return ``value`` after its ``__set_name__``, as if it stood in the body of ``owner``.

    Args:
        value: that a class is about to hold.
        owner: the class.
        name: of the attribute.
        mine: false if ``value`` was taken from another class, where it has a name already; a copy gets the new one.
    """
    kind = type(value)
    if not hasattr(kind, "__set_name__") or issubclass(kind, (type, property)):  # one of Python's
        return value
    if issubclass(kind, functools.cached_property) and value.attrname not in (None, name):
        value = rebuilt(value, value.func)
        value.attrname = None  # it refuses a second name
    elif not mine:
        value = copy.copy(value)
    kind.__set_name__(value, owner, name)
    return value


def _is_bound(value: Any) -> bool:
    """Return whether a class that holds ``value`` hands it the instance, as it does with a function, not a builtin."""
    return hasattr(type(value), "__get__") and not issubclass(type(value), UNBOUND)


def _as_function(value: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    return copy_metadata(function, value)  # type: ignore[no-any-return]


def wrapped_callable(raw: Any) -> Any:
    """Return the callable inside ``raw`` that gets the arguments of the call, ``self`` or ``cls`` included.

    Examples:
        >>> from patchcore.plugin import wrapped_callable
        >>> wrapped_callable(classmethod(len))
        <built-in function len>
    """
    kind = type(raw)  # isinstance would run code of a proxy
    if issubclass(kind, (staticmethod, classmethod)):
        return raw.__func__
    if issubclass(kind, property):
        return raw.fget
    if issubclass(kind, functools.cached_property):
        return raw.func
    return raw


def wrap_raw(raw: Any, wrapper: Callable[..., Any], *, in_class: bool, counter: Optional[Counter] = None) -> Any:
    """Return ``raw`` with ``wrapper(original, *args, **kwargs)`` around its callable, in the same form.

    Args:
        raw: of the slot.
        wrapper: gets the callable inside ``raw`` before the arguments of the call.
        in_class: whether the slot belongs to a class.
        counter: counts the calls.

    For a Python function whose parameters the wrapper declares itself, after the original, a function with these
    parameters is generated, which passes the call on without packing it. Any other wrapper gets its arguments just as
    the caller passed them.

    Raises:
        DeclarationError: ``raw`` is a class, or cannot be called.

    Examples:
        >>> from patchcore.plugin import wrap_raw
        >>> def price(goods): return 3
        >>> wrap_raw(price, lambda original, goods: 2 * original(goods), in_class=False)("tea")
        6
    """
    _refuse_uncallable(wrapper)

    def around(original: Any) -> Any:
        return generated.wrapping_function(original, wrapper, counter, None, *_handover(original))

    if _is_left_to_get(raw, in_class):
        if counter is not None:  # the function that counts is made at the first access, which may never come
            counter.in_use = True
        return stand_in(raw, around, functools.partial(_finished, in_class=True), "cannot wrap")
    original = wrapped_callable(raw)
    if passes_for(original, type):
        raise DeclarationError(
            f"cannot wrap the class {original.__qualname__}: a function in its place would break isinstance and "
            f"subclassing; wrap '{original.__module__}:{original.__qualname__}.__init__', or Replace it with a subclass"
        )
    if not callable(original):
        raise DeclarationError(f"cannot wrap {original!r}: expected a callable, found {type(original).__name__}")
    return _in_form_of(raw, _finished(around(original), original, in_class), in_class)


def _refuse_uncallable(wrapper: Any) -> None:
    if not callable(wrapper):
        raise DeclarationError(
            f"a wrapper is called as wrapper(original, *args, **kwargs), but {wrapper!r} is not callable"
        )


def make_dispatcher(
    raw: Any, replacement: Any, predicate: Callable[..., Any], *, in_class: bool, counter: Optional[Counter] = None
) -> Any:
    """Return ``raw`` so that it calls ``replacement`` where ``predicate(*args, **kwargs)`` is true, else the original.

    Only the predicate decides: an exception of the replacement reaches the caller, and so does one of the predicate.
    For a Python function the dispatcher is generated with the function's own parameters, which is about as fast as a
    dispatcher in Python can be: predicate and replacement then get every argument, with the original's defaults for
    those that are left out. If one of the two does not take them all, or the original is no Python function, the
    dispatcher passes on the arguments of the call only.

    Args:
        raw: of the slot.
        replacement: called where the predicate is true.
        predicate: gets the arguments of the call.
        in_class: whether the slot belongs to a class.
        counter: counts which of the two is called, in the dispatcher itself.

    Raises:
        DeclarationError: one of the two cannot be called, or the original is a class.

    Examples:
        >>> from patchcore.plugin import make_dispatcher
        >>> def price(goods): return 3
        >>> def free(goods): return 0
        >>> both = make_dispatcher(price, free, lambda goods: goods == "water", in_class=False)
        >>> both("tea"), both("water")
        (3, 0)
    """
    chosen = _called(raw, replacement, in_class)

    def around(original: Any) -> Any:
        return generated.dispatcher(original, chosen, predicate, counter, None, *_handover(original))

    if _is_left_to_get(raw, in_class) and callable(chosen):
        if counter is not None:
            counter.in_use = True
        return stand_in(raw, around, functools.partial(_finished, in_class=True), "when_call cannot dispatch")
    original = wrapped_callable(raw)
    if not callable(original) or not callable(chosen):
        raise DeclarationError(f"when_call needs two callables, found {original!r} and {chosen!r}")
    if passes_for(original, type):
        raise DeclarationError(
            f"when_call cannot dispatch calls of the class {original.__qualname__}; use it on its methods instead"
        )
    return _in_form_of(raw, _finished(around(original), original, in_class), in_class)


def wrapped_body(
    original: FunctionType, wrapper: Callable[..., Any], body: Body, counter: Optional[Counter] = None
) -> FunctionType:
    """Return a function whose body calls ``wrapper(original, *args, **kwargs)``; see :func:`wrap_raw`.

    Args:
        original: a function with the present behaviour of the function that gets the body.
        wrapper: called with ``original`` before the arguments of the call.
        body: of the function that gets it.
        counter: counts the calls.
    """
    _refuse_uncallable(wrapper)
    made = generated.wrapping_function(original, wrapper, counter, body.original, *_handover(body.original, body))
    return _finished_body(made, original, body)


def dispatched_body(
    raw: Any,
    original: FunctionType,
    replacement: Any,
    predicate: Callable[..., Any],
    body: Body,
    *,
    in_class: bool,
    counter: Optional[Counter] = None,
) -> FunctionType:
    """Return a function whose body calls ``replacement`` where ``predicate`` is true, else ``original``.

    See :func:`make_dispatcher`.

    Args:
        raw: the raw value of the function's slot; its form decides how ``replacement`` gets its arguments.
        original: a function with the present behaviour of the function that gets the body.
        replacement: called if the predicate is true.
        predicate: gets the arguments of the call.
        body: of the function that gets it.
        in_class: whether the slot belongs to a class.
        counter: counts which of the two is called.
    """
    chosen = _called(raw, replacement, in_class)
    if not callable(chosen):
        raise DeclarationError(f"when_call needs two callables, found {original!r} and {chosen!r}")
    made = generated.dispatcher(original, chosen, predicate, counter, body.original, *_handover(body.original, body))
    return _finished_body(made, original, body)


def passing_body(
    raw: Any,
    original: FunctionType,
    replacement: Any,
    body: Body,
    *,
    in_class: bool,
    counter: Optional[Counter] = None,
) -> FunctionType:
    """Return a function whose body calls ``replacement``.

    Args:
        raw: the raw value of the function's slot; its form decides how ``replacement`` gets its arguments.
        original: a function with the present behaviour of the function that gets the body.
        replacement: the callable.
        body: of the function that gets it.
        in_class: whether the slot belongs to a class.
        counter: counts the calls.

    Raises:
        DeclarationError: ``replacement`` cannot be called, or is a class.
    """
    chosen = _called(raw, replacement, in_class)
    if not callable(chosen) or passes_for(chosen, type):
        raise DeclarationError(f"everywhere=True needs a function, found {replacement!r}")
    made = generated.passing_function(original, chosen, body.original, counter, *_handover(body.original, body))
    return _finished_body(made, original, body)


def _handover(original: Any, body: Optional[Body] = None) -> tuple[Optional[generated.Handover], Any]:
    """Return the handover of calls of ``original``, if it has one, and the function that callers know.

    Args:
        original: the function.
        body: the body that the made function is for; ``None`` if it is put in a slot.
    """
    found = next(filter(None, (handover(original) for handover in in_use().handovers)), None)
    return found, None if body is None or found is None else body.function


def _finished_body(made: FunctionType, original: FunctionType, body: Body) -> FunctionType:
    """Return ``made`` as a function of the kind of ``original``, with its names."""
    function: Any = generated.of_kind(made, original, body.original)
    function.__module__, function.__name__, function.__qualname__ = (
        original.__module__,
        original.__name__,
        original.__qualname__,
    )
    function.__wrapped__ = original
    set_marks(function, in_use().marks)
    return function  # type: ignore[no-any-return]


def _is_left_to_get(raw: Any, in_class: bool) -> bool:
    """True if the new value for ``raw`` must go through the ``__get__`` of ``raw``.

    Python calls ``__get__`` for values of classes only. A value outside of a class that cannot be called is meant for
    a class.
    """
    return goes_its_own_way(raw) and (in_class or not callable(raw))


def _in_form_of(raw: Any, made: Any, in_class: bool) -> Any:
    """Return ``made``, a function of ours, in the form of ``raw``: outside of a class, too, which may be made of it."""
    return rebuilt(raw, made) if issubclass(type(raw), FORMS) else bind_like(raw, made, in_class=in_class)


def _called(raw: Any, replacement: Any, in_class: bool) -> Any:
    """Return a callable with the arguments of the one in ``raw`` that calls ``replacement`` according to its form."""
    function = wrapped_callable(replacement)
    if not in_class or issubclass(type(raw), staticmethod) or not _is_bound(raw):  # nothing comes before the arguments
        return function
    if issubclass(type(replacement), staticmethod):

        def static(first: Any, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return static
    if goes_its_own_way(replacement) and callable(replacement):
        return call_of(replacement)
    return function


def _finished(function: Any, original: Any, in_class: bool) -> Any:
    """Return ``function``, made to stand for ``original``, as a function of its kind with its names and attributes."""
    return _marked(copy_metadata(generated.of_kind(function, original), original), original, in_class)


def _marked(function: Any, original: Any, in_class: bool) -> Any:
    """Call every mark for ``function`` and return it; see the hook ``register_marks``."""
    undo = [undo for undo in [mark(function, original, in_class) for mark in in_use().marks] if callable(undo)]
    if undo and type(function) is FunctionType:
        _undo[function] = undo
    return function


def unmark(product: Any) -> None:
    """Undo the marks of ``product``, which no slot holds any more. Anything may be given."""
    function = wrapped_callable(product)
    for undo in _undo.pop(function, ()) if type(function) is FunctionType else ():
        undo()


def count(raw: Any, counter: Counter, *, name: str, in_class: bool) -> Any:
    """Return ``raw`` with a function around its callable that counts the calls; unchanged if that would lose something.

    The function has the name, documentation, signature and attributes of the callable. Its module and qualified name,
    by which pickle finds it, are those of the slot.

    Args:
        raw: the value for the slot.
        counter: counts the calls.
        name: of the slot, ``package.module:Class.attribute``.
        in_class: whether the slot belongs to a class.
    """
    function = wrapped_callable(raw)
    if type(function) not in _COUNTED or (raw is not function and not in_class):
        return raw
    made: Any = _marked(copy_metadata(generated.counting_function(function, counter), function), function, in_class)
    module, _, path = name.partition(":")
    if "[" not in path:  # pickle knows no items
        made.__module__, made.__qualname__ = module, path
    return bind_like(raw, made, in_class=in_class)


def copy_metadata(function: Any, original: Any) -> Any:
    """Give ``function`` the name, documentation and public attributes of ``original``; return it.

    Unlike :func:`functools.update_wrapper` it leaves private attributes behind: frameworks keep per-function state
    there (``_torchdynamo_disable`` of torch 2) that is wrong for any other function. And it copies attributes that a
    callable object has from its class, such as ``cache_clear`` of :func:`functools.lru_cache`.

    Examples:
        >>> from patchcore.plugin import copy_metadata
        >>> def price(goods): "Return the price of goods."
        >>> copy_metadata(lambda goods: 3, price).__doc__
        'Return the price of goods.'
    """
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = attribute(original, name)
        if type(value) is str:
            setattr(function, name, value)
    # reading the annotations of a class would add some to it
    is_class = passes_for(original, type)
    lazy = None if is_class else attribute(original, "__annotate__")
    if lazy is not None:  # since Python 3.14: reading them runs code, which fails where names are for type checkers
        function.__annotate__ = lazy
    else:
        annotations: Any = None if is_class else attribute(original, "__annotations__")
        function.__annotations__ = dict(annotations) if passes_for(annotations, Mapping) else {}
    if type(original) not in _COUNTED:
        for name, value in helpers(original):
            setattr(function, name, value)
    for name, value in (attribute(original, "__dict__") or {}).items():
        if not name.startswith("_") or name in _MARKS:
            setattr(function, name, value)
    if attribute(original, "__isabstractmethod__") is True:
        function.__isabstractmethod__ = True
    parameters = attribute(original, "__type_params__")
    if type(parameters) is tuple and parameters:  # def f[T](x: T), since Python 3.12
        function.__type_params__ = parameters
    function.__wrapped__ = original
    return function


def helpers(original: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public methods, and attributes written in C, that a callable object has from its class, each once."""
    seen: set[str] = set()
    for klass in type(original).__mro__[:-1] if not passes_for(original, type) else ():
        for name, raw in list(vars(klass).items()):
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if type(raw) in _HELPERS:
                try:
                    value = raw.__get__(original, type(original))  # past a __getattribute__ of the class
                except Exception:  # an attribute without a value
                    continue
                yield name, value
