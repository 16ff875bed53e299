"""Descriptors that replace others: the same form around another function, or one that goes through ``__get__``.

The ``__get__`` of an attribute's value decides how it is called. Python's own descriptors are made again around
another function. A descriptor of a library's own (``cache_randomness`` of mmcv, a dispatcher of numba) keeps state, and
may do anything in its ``__get__``: its replacement calls that at every access, as Python would.
"""

from __future__ import annotations

import functools
import sys
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any, Callable, Optional

from patchcore.errors import DeclarationError
from patchcore.objects.modules import attribute

__all__ = [
    "FORMS",
    "LIKE_FUNCTIONS",
    "UNBOUND",
    "Around",
    "Attribute",
    "Method",
    "call_of",
    "goes_its_own_way",
    "rebuilt",
    "stand_in",
]

#: Descriptors around one function, which can be made again around another.
FORMS = (staticmethod, classmethod, property, functools.cached_property)

#: Callables that a class binds: access through an instance makes the instance their first argument.
LIKE_FUNCTIONS = (FunctionType, MethodDescriptorType, WrapperDescriptorType, type(functools.lru_cache(len)))

#: Callables that a class does not bind. It binds a partial since Python 3.14; 3.13 only warns that it will.
UNBOUND = (MethodType, functools.partial) if sys.version_info < (3, 14) else (MethodType,)

#: Callables whose binding is known.
_KNOWN = (*LIKE_FUNCTIONS, BuiltinFunctionType, MethodType, functools.partial, ClassMethodDescriptorType)

#: Python's descriptors that bind a callable and cannot be called themselves.
_METHODS = (functools.partialmethod, functools.singledispatchmethod)

#: Attributes written in C: read and set like those of a ``property``.
_ATTRIBUTES = (GetSetDescriptorType, MemberDescriptorType)

#: Special attributes, describing its kind, that a stand-in takes from its descriptor besides public and private ones.
_SPECIAL = ("__isabstractmethod__", "__objclass__", "__annotations__", "__partialmethod__", "__signature__")

#: Takes a callable; returns a function that is called in its place, with the same arguments.
Around = Callable[[Any], Any]
#: Gives a function the kind, name and attributes of a callable.
Finish = Callable[[Any, Any], Any]


def rebuilt(raw: Any, function: Any) -> Any:
    """Return ``raw``, one of :data:`FORMS` or of a class derived from one, around ``function``.

    The attributes of an object of a derived class are copied; one that holds the function inside gets the new one.
    """
    kind = type(raw)
    if kind is staticmethod or kind is classmethod:
        return kind(function)
    if kind is property:
        return raw.getter(function)
    base: Any = next(form for form in FORMS if issubclass(kind, form))
    # past the __new__ and __init__ of the derived class, whose parameters are its own
    made = base.__new__(kind)
    if base is property:
        base.__init__(made, function, raw.fset, raw.fdel)
    else:
        base.__init__(made, function)
    old = raw.fget if base is property else raw.func if base is functools.cached_property else raw.__func__
    if base is functools.cached_property:
        made.attrname = raw.attrname
    state = dict(getattr(raw, "__dict__", ()))
    state.update((name, getattr(raw, name)) for name in _slots(kind, base) if hasattr(raw, name))
    for name, value in state.items():
        if name not in getattr(made, "__dict__", ()):
            object.__setattr__(made, name, function if value is old else value)
    return made


def _slots(kind: type, base: type) -> list[str]:
    """The names of ``__slots__`` of the classes from ``kind`` to ``base``, without those of ``base``."""
    derived = kind.__mro__[: kind.__mro__.index(base)]
    return [name for klass in derived for name, raw in vars(klass).items() if type(raw) is MemberDescriptorType]


def goes_its_own_way(raw: Any) -> bool:
    """Return whether a class that holds ``raw`` leaves it to the ``__get__`` of ``raw``, of no kind that Python has."""
    kind = type(raw)  # isinstance would wake a lazy module
    return hasattr(kind, "__get__") and not issubclass(kind, (type, *FORMS)) and kind not in _KNOWN


def call_of(descriptor: Any) -> Callable[..., Any]:
    """Return a function that takes an instance and the arguments of a call of it through ``descriptor``."""
    get = type(descriptor).__get__

    def through(instance: Any, *args: Any, **kwargs: Any) -> Any:
        return get(descriptor, instance, type(instance))(*args, **kwargs)

    return through


def of_object(owner: type, key: str) -> Any:
    """Return a method for ``owner`` with the behaviour that ``owner`` has by inheriting ``key`` from ``object``.

    ``object`` is last in every order of classes. A method of ``owner`` hides those of the classes behind it, so this
    one calls the next one as :class:`super` does. And ``object`` refuses arguments that it ignored as long as
    ``__new__`` or ``__init__`` was not overridden (``object_new`` and ``object_init`` in ``Objects/typeobject.c``).
    """
    raw: Any = vars(object)[key]
    makes: Any = object.__new__

    def inherited(first: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            found = getattr(super(owner, first), key)
        except TypeError:  # it is called for an object of another class
            return raw(first, *args, **kwargs)
        if key == "__new__":
            if found is raw and (args or kwargs):
                if first.__init__ is object.__init__:
                    raise TypeError(f"{first.__name__}() takes no arguments")
                return raw(first)
            return found(first, *args, **kwargs)
        if key == "__init__" and (args or kwargs) and getattr(found, "__objclass__", None) is object:
            if type(first).__new__ is makes:
                raise TypeError(f"{type(first).__name__}() takes no arguments")
            return found()
        return found(*args, **kwargs)

    functools.update_wrapper(inherited, raw)
    if key == "__new__":
        return staticmethod(inherited)
    return classmethod(inherited) if type(raw) is ClassMethodDescriptorType else inherited


def stand_in(raw: Any, around: Around, finish: Finish, what: str) -> Any:
    """Return a descriptor that replaces ``raw``, a descriptor of a library's own kind.

    Args:
        raw: the descriptor.
        around: called with the callable that ``raw`` binds; returns the one to call instead. For an access through an
            instance, both take the instance first.
        finish: gives a function the kind and name of the callable that it replaces.
        what: the purpose, for the error.

    Raises:
        DeclarationError: ``raw`` may be for methods or for attributes.
    """
    kind = type(raw)
    if callable(raw):
        return _CallableMethod(raw, around, finish)
    if issubclass(kind, (Method, *_METHODS)):
        return Method(raw, around, finish)
    if hasattr(kind, "__set__") or hasattr(kind, "__delete__"):
        return Attribute(raw, around, finish)
    raise DeclarationError(
        f"{what} {raw!r}: its own __get__ decides whether a {kind.__name__} is called or read; "
        "write Replace(target, factory=function) with a function that takes the original and returns another "
        f"{kind.__name__}"
    )


class _StandIn:
    """Stands in a class for a descriptor, whose names it has."""

    def __init__(self, raw: Any, around: Around, finish: Finish) -> None:
        self.__wrapped__ = raw
        self.__doc__ = attribute(raw, "__doc__")
        self._patchcore = (type(raw).__get__, around, finish)

    def __getattr__(self, name: str) -> Any:
        # of the special names only those that describe its kind: copy and pickle look for others
        if (name[:2] == "__" and name not in _SPECIAL and name not in _NAMES) or "__wrapped__" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __set_name__(self, owner: type, name: str) -> None:
        named = getattr(type(self.__wrapped__), "__set_name__", None)
        if named is not None:
            named(self.__wrapped__, owner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in the place of {self.__wrapped__!r}>"


_NAMES = ("__name__", "__qualname__")


class Method(_StandIn):
    """Binds through the ``__get__`` of its descriptor, and puts a function around the bound callable."""

    def __init__(self, raw: Any, around: Around, finish: Finish) -> None:
        super().__init__(raw, around, finish)
        self._last: Optional[tuple[Any, Any]] = None  # the function bound last, with the one around it

    def __get__(self, instance: Any, owner: Optional[type] = None) -> Any:
        raw = self.__wrapped__
        get, around, finish = self._patchcore
        bound = get(raw, instance, owner)
        if type(bound) is MethodType:
            return MethodType(self._around(bound.__func__), bound.__self__)
        if not callable(bound):
            return bound if instance is None else around(lambda self: bound)(instance)
        # a partial of functools.partialmethod has the object that it is bound to: the class for a class method
        first = getattr(bound, "__dict__", {}).get("__self__", instance)
        if first is None:
            return self._around(bound)

        def original(given: Any, *args: Any, **kwargs: Any) -> Any:
            if given is first:
                return bound(*args, **kwargs)
            other = get(raw, None, given) if isinstance(given, type) else get(raw, given, type(given))
            return other(*args, **kwargs)

        made = around(original)

        def method(*args: Any, **kwargs: Any) -> Any:
            return made(first, *args, **kwargs)

        return finish(method, bound)

    def _around(self, function: Any) -> Any:
        # A method that is looked up twice must be the same function twice, for code that compares or caches by it. The
        # pair is one attribute, so another thread never sees a function with the wrapper of another one.
        last = self._last
        if last is None or last[0] is not function:
            _, around, finish = self._patchcore
            last = self._last = (function, finish(around(function), function))
        return last[1]


class _CallableMethod(Method):
    """The same, of a descriptor that can be called itself."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._around(self.__wrapped__)(*args, **kwargs)


class Attribute(_StandIn):
    """Reads through the ``__get__`` of its descriptor, with a function around that; sets and deletes as that does."""

    def __init__(self, raw: Any, around: Around, finish: Finish) -> None:
        super().__init__(raw, around, finish)
        get = type(raw).__get__
        self._read = around(lambda instance: get(raw, instance, type(instance)))

    def __get__(self, instance: Any, owner: Optional[type] = None) -> Any:
        if instance is None:
            return type(self.__wrapped__).__get__(self.__wrapped__, None, owner)
        return self._read(instance)

    def __set__(self, instance: Any, value: Any) -> None:
        type(self.__wrapped__).__set__(self.__wrapped__, instance, value)

    def __delete__(self, instance: Any) -> None:
        type(self.__wrapped__).__delete__(self.__wrapped__, instance)
