"""What goes into a slot: keep its calling convention, keep the way out to the original.

The raw value of a slot decides how it is called: a ``staticmethod`` gets no ``self``, a property is read, a builtin in
a class body is not bound. Functions here put a new callable into the same form, and never put a proxy on the call path:
a replacement is the object itself, a wrapper is one plain Python function.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
from collections.abc import Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Callable, Optional

from patchcore.errors import DeclarationError

__all__ = ["bind_like", "copy_metadata", "dispatch", "has_identity", "reference", "wrap", "wrapped_callable"]

_DESCRIPTORS = (staticmethod, classmethod, property, functools.cached_property)
# these have a __get__ that binds nothing: a partial only warns, in Python 3.13, that it will bind
_UNBOUND = (MethodType, functools.partial) if sys.version_info < (3, 14) else (MethodType,)


def reference(raw: Any) -> Any:
    """Return what a by-value reference to the slot holds: the function inside a ``staticmethod``, else ``raw``."""
    return raw.__func__ if issubclass(type(raw), staticmethod) else raw


def has_identity(value: Any) -> bool:
    """Tell whether two names that hold ``value`` hold it because one took it from the other.

    True of functions, classes, modules and other callables; false of numbers, texts and the like, which Python shares.
    """
    return callable(value) or isinstance(value, ModuleType)


def bind_like(raw: Any, value: Any, *, in_class: bool) -> Any:
    """Return ``value`` in the form in which ``raw`` stands in its slot, so that it is called in the same way.

    A value that already is a descriptor object is taken as it is. ``in_class`` says whether the slot belongs to a
    class, where a plain function would be bound and a builtin would not.
    """
    if not in_class or isinstance(value, _DESCRIPTORS) or not callable(value) or isinstance(value, type):
        return value
    kind = type(raw)  # isinstance would wake a lazy module
    if issubclass(kind, staticmethod):
        return staticmethod(value)
    if issubclass(kind, classmethod):
        return classmethod(value)
    if issubclass(kind, property):
        return raw.getter(value)
    if issubclass(kind, functools.cached_property):
        cached = kind(value)
        cached.__set_name__(None, raw.attrname)  # type: ignore[arg-type]
        return cached
    if callable(raw) and _is_bound(raw) != _is_bound(value):
        return staticmethod(value) if _is_bound(value) else _as_function(value)
    return value


def _is_bound(value: Any) -> bool:
    """Tell whether a class that holds ``value`` hands it the instance, as it does with a function, not a builtin."""
    return hasattr(type(value), "__get__") and not isinstance(value, _UNBOUND)


def _as_function(value: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    return copy_metadata(function, value)  # type: ignore[no-any-return]


def wrapped_callable(raw: Any) -> Any:
    """Return the callable inside ``raw`` that gets the arguments of the call, ``self`` or ``cls`` included."""
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
    if not callable(wrapper):
        raise DeclarationError(
            f"a wrapper is called as wrapper(original, *args, **kwargs), {wrapper!r} cannot be called"
        )
    if isinstance(original, type):
        raise DeclarationError(
            f"cannot wrap the class {original.__qualname__}: a function in its place would break isinstance and "
            f"subclassing; wrap '{original.__module__}:{original.__qualname__}.__init__', or Replace it with a subclass"
        )
    if not callable(original):
        raise DeclarationError(
            f"cannot wrap {original!r}: expected something callable, found {type(original).__name__}"
        )

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return bind_like(raw, copy_metadata(wrapped, original), in_class=in_class)


def dispatch(raw: Any, replacement: Any, predicate: Callable[..., Any], *, in_class: bool) -> Any:
    """Return ``raw`` so that it calls ``replacement`` where ``predicate(*args, **kwargs)`` is true, else the original.

    Only the predicate decides: what the replacement raises reaches the caller, and so does what the predicate raises.
    For a Python function the dispatcher is generated with the function's own parameters, which is about as fast as a
    dispatcher in Python can be: predicate and replacement then get every argument, left out ones with the original's
    defaults. Where one of the two does not take them all, or the original is no Python function, the dispatcher passes
    on just what it is called with.
    """
    original = wrapped_callable(raw)
    chosen = wrapped_callable(replacement)
    if not callable(original) or not callable(chosen):
        raise DeclarationError(f"when_call needs two callables, found {original!r} and {chosen!r}")
    if isinstance(original, type):
        raise DeclarationError(
            f"when_call cannot stand in for the class {original.__qualname__}: dispatch on its methods instead"
        )
    made: Any = _generate_dispatcher(original, chosen, predicate) if type(original) is FunctionType else None
    if made is None:

        def dispatcher(*args: Any, **kwargs: Any) -> Any:
            if predicate(*args, **kwargs):
                return chosen(*args, **kwargs)
            return original(*args, **kwargs)

        made = dispatcher
    return bind_like(raw, copy_metadata(made, original), in_class=in_class)


def copy_metadata(function: Any, original: Any) -> Any:
    """Give ``function`` the name, documentation and public attributes of ``original``; return it.

    Unlike :func:`functools.update_wrapper` it leaves private attributes behind: frameworks keep per-function state
    there (``_torchdynamo_disable`` of torch 2) that is wrong for any other function.
    """
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(original, name, None)
        if isinstance(value, str):
            setattr(function, name, value)
    # asking a class for its annotations would add some to it
    annotations = None if isinstance(original, type) else getattr(original, "__annotations__", None)
    function.__annotations__ = dict(annotations) if isinstance(annotations, Mapping) else {}
    for name, value in (getattr(original, "__dict__", None) or {}).items():
        if not name.startswith("_"):
            setattr(function, name, value)
    function.__wrapped__ = original
    return function


class _Parameters:
    """The parameters of a function, as the text of its header and of a call that passes them all on."""

    def __init__(self, function: FunctionType) -> None:
        code: CodeType = function.__code__
        count = code.co_argcount
        names = code.co_varnames
        self.positional = names[:count]
        self.keyword_only = names[count : count + code.co_kwonlyargcount]
        rest = list(names[count + code.co_kwonlyargcount :])
        self.args = rest.pop(0) if code.co_flags & inspect.CO_VARARGS else None
        self.kwargs = rest.pop(0) if code.co_flags & inspect.CO_VARKEYWORDS else None
        self.header = ", ".join(self._header(function, code.co_posonlyargcount))
        self.call = ", ".join(
            [
                *self.positional,
                *([f"*{self.args}"] if self.args else ()),
                *(f"{name}={name}" for name in self.keyword_only),
                *([f"**{self.kwargs}"] if self.kwargs else ()),
            ]
        )

    def _header(self, function: FunctionType, positional_only: int) -> list[str]:
        # the values of the defaults are set on the finished function
        first_default = len(self.positional) - len(function.__defaults__ or ())
        header = [name if i < first_default else f"{name}=None" for i, name in enumerate(self.positional)]
        if positional_only:
            header.insert(positional_only, "/")
        if self.args or self.keyword_only:
            header.append(f"*{self.args or ''}")
        defaults = function.__kwdefaults__ or {}
        header += (f"{name}=None" if name in defaults else name for name in self.keyword_only)
        return header + ([f"**{self.kwargs}"] if self.kwargs else [])

    def are_taken_by(self, function: Any) -> bool:
        """Tell whether ``function`` can be called with all of them, as far as its signature is known."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return False
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        if (self.args and inspect.Parameter.VAR_POSITIONAL not in kinds) or (
            self.kwargs and inspect.Parameter.VAR_KEYWORD not in kinds
        ):
            return False
        try:
            signature.bind(*self.positional, **dict.fromkeys(self.keyword_only))
        except TypeError:
            return False
        return True


def _generate_dispatcher(original: FunctionType, chosen: Any, predicate: Any) -> Optional[FunctionType]:
    """Write and compile a dispatcher with the parameters of ``original``; ``None`` where that would not do."""
    parameters = _Parameters(original)
    if "_pc_" in parameters.header or not (parameters.are_taken_by(chosen) and parameters.are_taken_by(predicate)):
        return None
    source = (
        "def _pc_make(_pc_predicate, _pc_replacement, _pc_original):\n"
        f"    def _pc_dispatcher({parameters.header}):\n"
        f"        if _pc_predicate({parameters.call}):\n"
        f"            return _pc_replacement({parameters.call})\n"
        f"        return _pc_original({parameters.call})\n"
        "    return _pc_dispatcher\n"
    )
    filename = f"<patchcore dispatcher for {original.__module__}:{original.__qualname__}>"
    scope: dict[str, Any] = {}
    try:
        exec(compile(source, filename, "exec"), scope)  # text made from parameter names only, as dataclasses does
    except SyntaxError:  # names that no source has, of a function made by a program
        return None
    # (size, no mtime, lines, name): tracebacks and inspect.getsource show the dispatcher; linecache never checks it
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    dispatcher: FunctionType = scope["_pc_make"](predicate, chosen, original)
    dispatcher.__defaults__ = original.__defaults__
    dispatcher.__kwdefaults__ = dict(original.__kwdefaults__) if original.__kwdefaults__ else None
    return dispatcher
