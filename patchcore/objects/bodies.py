"""Bodies of functions: the code that runs in a call, which can be written while the function stays the same object.

All holders of the function follow: closures, defaults, containers, tables that have it as a key. A body is written as
three attributes at once, code and both kinds of defaults, all taken from a function that has the same free variables.
Python gives no function other cells than it was made with, so the objects that a written body needs come as defaults of
keyword-only parameters (:mod:`patchcore.objects.generated`).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from itertools import repeat
from types import FunctionType
from typing import Any, Callable, Optional

from patchcore.objects.modules import ABSENT

__all__ = ["Body", "body_of", "can_be_written", "copy_of", "patched_body", "set_marks"]

#: Called with a function that replaces another one or gets another body, with the original, and true for a method; see
#: the hook ``register_marks``.
Mark = Callable[[Any, Any, bool], Any]

#: The attributes that make the body of a function, besides its closure.
_PARTS = ("__code__", "__defaults__", "__kwdefaults__")


class Body:
    """The body of one Python function, while it may be patched.

    Args:
        function: the function.

    Attributes:
        function: the same.
        original: a copy of the function as it was found; it keeps the original behaviour.
    """

    __slots__ = ("__weakref__", "_edited", "_lent", "_undo", "_values", "function", "original")

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.original = self._edited = copy_of(function)
        self._values = self.original, self.original  # the function has the code of one of them: written last, and now
        self._lent: dict[str, Any] = {}  # attributes that the function has while patched, with their earlier values
        self._undo: list[Any] = []  # the functions that marks have returned

    def read(self) -> FunctionType:
        """Return the function that this one behaves as: the one written last, or a copy if other code wrote since.

        ``%autoreload`` of IPython writes the code of an edited function, or that of a reloaded one, which is patched:
        the behaviour without the patch is then the new original.
        """
        while True:
            values, code = self._values, self.function.__code__
            for known in (*reversed(values), self.original, self._edited):
                if known.__code__ is code:
                    return known
            found = copy_of(self.function)
            # else another thread has written meanwhile, and the code may be one that it wrote
            if self._values is values and self.function.__code__ is code:
                break
        original = self.original
        if code.co_name == original.__code__.co_name and not any(map(_is_ours, code.co_varnames)):
            defaults = found.__kwdefaults__ or {}
            found.__kwdefaults__ = {name: value for name, value in defaults.items() if not _is_ours(name)} or None
            found.__dict__.pop("__wrapped__", None)
            original = found
        for other in list(_bodies.values()):
            if other is not self and other._values[-1].__code__ is code:
                original = other.original
        self._edited, self.original = found, original
        return found

    def write(self, source: FunctionType, *, in_class: bool) -> None:
        """Make the function behave as ``source``, which has its free variables.

        A thread that calls it meanwhile gets the old body or the new one: nothing written in Python, and no other
        thread, runs between the parts (but for free-threaded builds).

        Args:
            source: the original, another function that :meth:`read` has returned, or one made for this body.
            in_class: whether the function is a method, for the marks (see the hook ``register_marks``).
        """
        function, before = self.function, self.read()
        defaults = [source.__defaults__, source.__kwdefaults__]
        if source is self.original and before is not source:  # defaults that the program has set meanwhile stay
            found = [function.__defaults__, function.__kwdefaults__]
            written = [before.__defaults__, before.__kwdefaults__]
            defaults = [d if f is w else f for d, f, w in zip(defaults, found, written)]
        # First, because another thread may call read() between the two statements: it finds the code that the function
        # has then among these two, and does not take it for an edit of other code.
        self._values = before, source
        # The old parts are held until all three are written: a default that ends before would run its finalizer, and a
        # call of the function there would run the new code with old defaults. map() in C runs no Python code between
        # the three writes, so no other thread and no signal handler does either.
        kept = list(map(getattr, repeat(function), _PARTS))
        list(map(setattr, repeat(function), _PARTS, (source.__code__, *defaults)))
        del kept
        self._take_back()
        if source is not self.original:
            self._lend(_marks.get(source, ()), in_class)

    def _lend(self, marks: Sequence[Mark], in_class: bool) -> None:
        """Set ``__wrapped__`` and the attributes of ``marks`` on the function; they are taken back with the patch."""
        space = self.function.__dict__
        before = dict(space)
        space["__wrapped__"] = self.original
        marked = (mark(self.function, self.original, in_class) for mark in marks)
        self._undo = [undo for undo in marked if callable(undo)]
        changed = [name for name, value in space.items() if before.get(name, ABSENT) is not value]
        self._lent = {name: before.get(name, ABSENT) for name in changed}

    def _take_back(self) -> None:
        space = self.function.__dict__
        for name, value in self._lent.items():
            if value is ABSENT:
                space.pop(name, None)
            else:
                space[name] = value
        self._lent = {}
        for undo in self._undo:
            undo()
        self._undo = []


#: By function that was made to be a body: the marks of the function that gets it.
_marks: weakref.WeakKeyDictionary[FunctionType, Sequence[Mark]] = weakref.WeakKeyDictionary()


def set_marks(source: FunctionType, marks: Sequence[Mark]) -> None:
    """Have ``marks`` called for the function whose body becomes ``source``; see the hook ``register_marks``."""
    if marks:
        _marks[source] = marks


def _is_ours(name: str) -> bool:
    """True for the parameter that brings the objects of a written body; see :mod:`patchcore.objects.generated`."""
    return name.startswith("_pc_")


# With the function as its key the table would keep the function alive, also a WeakKeyDictionary, because the body
# refers to its function. For the same reason an id stays valid as long as the table has it.
#: By ``id`` of the function. A body lives as long as a slot of the journal refers to it.
_bodies: weakref.WeakValueDictionary[int, Body] = weakref.WeakValueDictionary()


def body_of(function: FunctionType) -> Body:
    """Return the body of ``function``: the same as long as it is in use.

    Callers hold the lock under which bodies are written, because a new body copies the function as it is.
    """
    return _bodies.get(id(function)) or _bodies.setdefault(id(function), Body(function))


def patched_body(function: Any) -> Optional[Body]:
    """Return the body of ``function`` if one is in use, else ``None``; anything may be given."""
    return _bodies.get(id(function)) if type(function) is FunctionType else None


def can_be_written(function: FunctionType) -> bool:
    """Return whether a body can be written for ``function``: all of its free variables can be named in a source."""
    return all(name.isidentifier() for name in function.__code__.co_freevars)


def copy_of(function: FunctionType) -> FunctionType:
    """Return another function with the code, cells, defaults and attributes that ``function`` has now."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__qualname__, made.__doc__ = function.__module__, function.__qualname__, function.__doc__
    lazy = getattr(function, "__annotate__", None)
    if lazy is not None:  # since Python 3.14: reading annotations runs code, which may fail
        made.__annotate__ = lazy  # type: ignore[attr-defined]
    else:
        made.__annotations__ = function.__annotations__
    if getattr(function, "__type_params__", ()):  # since Python 3.12
        made.__type_params__ = function.__type_params__  # type: ignore[attr-defined]
    made.__dict__.update(function.__dict__)
    return made
