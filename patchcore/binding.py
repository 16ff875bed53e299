"""What goes into a slot: keep its calling convention, keep the way out to the original.

The raw value of a slot decides how it is called: a ``staticmethod`` gets no ``self``, a property is read, a builtin in a
class body is not bound. Functions here put a new callable into the same form, and never put a proxy on the call path: a
replacement is the object itself, a wrapper is one plain Python function.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
from types import FunctionType, ModuleType
from typing import Any, Callable

from patchcore.errors import DeclarationError

__all__ = ["bind_like", "dispatch", "has_identity", "reference", "wrap"]

_DESCRIPTORS = (staticmethod, classmethod, property, functools.cached_property)


def reference(raw: Any) -> Any:
    """Return what a by-value reference to the slot holds: the function inside a ``staticmethod``, else ``raw``."""
    return raw.__func__ if isinstance(raw, staticmethod) else raw


def has_identity(value: Any) -> bool:
    """Tell whether two names that hold ``value`` hold it because one took it from the other.

    True of functions, classes, modules and other callables; false of numbers, texts and the like, which Python shares.
    """
    return callable(value) or isinstance(value, ModuleType)


def bind_like(raw: Any, value: Any, *, in_class: bool) -> Any:
    """Return ``value`` in the form in which ``raw`` stands in its slot, so that it is called in the same way.

    A value that already is a descriptor object is taken as it is. ``in_class`` says whether the slot belongs to a class,
    where a plain function would be bound and a builtin would not.
    """
    if not in_class or isinstance(value, _DESCRIPTORS) or not callable(value) or isinstance(value, type):
        return value
    if isinstance(raw, staticmethod):
        return staticmethod(value)
    if isinstance(raw, classmethod):
        return classmethod(value)
    if isinstance(raw, property):
        return raw.getter(value)
    if isinstance(raw, functools.cached_property):
        cached = type(raw)(value)
        cached.__set_name__(None, raw.attrname)  # type: ignore[arg-type]
        return cached
    if callable(raw) and not hasattr(type(raw), "__get__") and hasattr(type(value), "__get__"):
        return staticmethod(value)
    return value


def wrapped_callable(raw: Any) -> Any:
    """Return the callable inside ``raw`` that is called with the arguments of the call, ``self`` or ``cls`` included."""
    if isinstance(raw, (staticmethod, classmethod)):
        return raw.__func__
    if isinstance(raw, property):
        return raw.fget
    if isinstance(raw, functools.cached_property):
        return raw.func
    return raw


def wrap(raw: Any, wrapper: Callable[..., Any], *, in_class: bool) -> Any:
    """Return ``raw`` with ``wrapper(original, *args, **kwargs)`` around its callable, in the same form.

    Raises:
        DeclarationError: ``raw`` is a class, or cannot be called.
    """
    original = wrapped_callable(raw)
    if isinstance(original, type):
        raise DeclarationError(
            f"cannot wrap the class {original.__qualname__}: a function in its place would break isinstance and subclassing; "
            f"wrap '{original.__module__}:{original.__qualname__}.__init__', or Replace it with a subclass"
        )
    if not callable(original):
        raise DeclarationError(
            f"cannot wrap {original!r}: expected something callable, found {type(original).__name__}"
        )

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return bind_like(raw, copy_metadata(wrapped, original), in_class=in_class)


def dispatch(raw: Any, replacement: Any, predicate: Callable[..., Any], *, in_class: bool) -> Any:
    """Return ``raw`` in a form that calls ``replacement`` where ``predicate(*args, **kwargs)`` is true, else the original.

    Only the predicate decides: what the replacement raises reaches the caller, and so does what the predicate raises.
    For a Python function the dispatcher is generated with the function's own parameters, which is about as fast as a
    dispatcher in Python can be; for other callables it takes ``*args, **kwargs``.
    """
    original = wrapped_callable(raw)
    chosen = wrapped_callable(replacement)
    if not callable(original) or not callable(chosen):
        raise DeclarationError(f"when_call needs two callables, found {original!r} and {chosen!r}")
    if isinstance(original, type):
        raise DeclarationError(
            f"when_call cannot stand in for the class {original.__qualname__}: dispatch on its methods instead"
        )
    made = _generate_dispatcher(original, chosen, predicate) if type(original) is FunctionType else None
    if made is None:

        def dispatcher(*args: Any, **kwargs: Any) -> Any:
            if predicate(*args, **kwargs):
                return chosen(*args, **kwargs)
            return original(*args, **kwargs)

        made = dispatcher
    return bind_like(raw, copy_metadata(made, original), in_class=in_class)


def copy_metadata(function: Any, original: Any) -> Any:
    """Give ``function`` the name, documentation and public attributes of ``original``; return it.

    Unlike :func:`functools.update_wrapper` it leaves private attributes behind: frameworks keep per-function state there
    (``_torchdynamo_disable`` of torch 2) that is wrong for any other function.
    """
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(original, name, None)
        if value is not None:
            setattr(function, name, value)
    function.__annotations__ = dict(getattr(original, "__annotations__", {}))
    for name, value in (getattr(original, "__dict__", None) or {}).items():
        if not name.startswith("_"):
            setattr(function, name, value)
    function.__wrapped__ = original
    return function


_GENERATED = itertools.count()


def _generate_dispatcher(original: FunctionType, chosen: Any, predicate: Any) -> Any:
    """Write and compile a dispatcher with the parameters of ``original``; ``None`` where its names forbid it."""
    header, call = [], []
    star = False
    parameters = list(inspect.signature(original, follow_wrapped=False).parameters.values())
    for index, parameter in enumerate(parameters):
        name = parameter.name
        if name.startswith("_pc_") or not name.isidentifier():
            return None
        default = "" if parameter.default is parameter.empty else "=None"  # the real defaults are set below
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
            header.append(f"*{name}")
            call.append(f"*{name}")
        elif parameter.kind is parameter.VAR_KEYWORD:
            header.append(f"**{name}")
            call.append(f"**{name}")
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if not star:
                header.append("*")
                star = True
            header.append(f"{name}{default}")
            call.append(f"{name}={name}")
        else:
            header.append(f"{name}{default}")
            call.append(name)
            following = parameters[index + 1 : index + 2]
            if parameter.kind is parameter.POSITIONAL_ONLY and (
                not following or following[0].kind is not parameter.POSITIONAL_ONLY
            ):
                header.append("/")
    arguments = ", ".join(call)
    source = (
        "def _pc_make(_pc_predicate, _pc_replacement, _pc_original):\n"
        f"    def _pc_dispatcher({', '.join(header)}):\n"
        f"        if _pc_predicate({arguments}):\n"
        f"            return _pc_replacement({arguments})\n"
        f"        return _pc_original({arguments})\n"
        "    return _pc_dispatcher\n"
    )
    filename = f"<patchcore dispatcher {next(_GENERATED)} for {original.__module__}:{original.__qualname__}>"
    scope: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), scope)  # text made from identifiers only, as dataclasses does
    # (size, no mtime, lines, name): tracebacks and inspect.getsource show the dispatcher; linecache never checks it
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    dispatcher = scope["_pc_make"](predicate, chosen, original)
    dispatcher.__defaults__ = original.__defaults__
    dispatcher.__kwdefaults__ = dict(original.__kwdefaults__) if original.__kwdefaults__ else None
    return dispatcher
