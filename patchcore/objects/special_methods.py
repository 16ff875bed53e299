"""Special methods of classes: Python does more with them than to call them.

A special method that ``object`` has, too, behaves differently where a class has its own. CPython computes C-level slots
from some (:mod:`patchcore.objects.type_slots`), and abstract classes remember which classes have them.
"""

from __future__ import annotations

import contextlib
from abc import ABCMeta
from collections.abc import Iterator
from types import BuiltinFunctionType

from patchcore.objects.modules import class_namespace, mro_lookup

__all__ = ["SLOTTED", "constructor_problem", "is_special", "remark", "special_method"]

#: Special methods whose slots CPython does not compute again: the keys of :data:`patchcore.objects.type_slots.SLOTS`.
SLOTTED = frozenset(
    ("__new__", "__len__", "__getitem__", "__setitem__", "__delitem__")
    + ("__add__", "__radd__", "__iadd__", "__mul__", "__rmul__", "__imul__")
)

#: Special methods by which the abstract classes and protocols of the standard library recognise a class.
_CHECKED = frozenset(
    ("__hash__", "__call__", "__len__", "__contains__", "__iter__", "__next__", "__reversed__", "__getitem__")
    + ("__await__", "__aiter__", "__anext__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__fspath__")
    + ("__int__", "__float__", "__complex__", "__bytes__", "__index__", "__abs__", "__round__", "__buffer__")
)


def is_special(key: str) -> bool:
    """Return whether ``key`` has the form of the name of a special method."""
    return key.startswith("__") and key.endswith("__")


@contextlib.contextmanager
def special_method(owner: type, key: str) -> Iterator[None]:
    """Write or delete ``owner.key`` inside the block; the class is then one that was made like this."""
    before = key in class_namespace(owner)
    if key in SLOTTED:
        from patchcore.objects.type_slots import exact  # ctypes, for the few who need it

        with exact(owner, key):
            yield
    else:
        yield
    if key in _CHECKED and (key in class_namespace(owner)) != before:
        _forget_checks()


def remark(owner: type, key: str) -> str:
    """Return a side effect of a patch of ``owner.key``, as text for a report; empty if there is none."""
    if key in ("__new__", "__init__") and mro_lookup(owner, key) is vars(object)[key]:
        return f"object.{'__init__' if key == '__new__' else '__new__'} takes any arguments while this is patched"
    if key not in SLOTTED:
        return ""
    from patchcore.objects import type_slots

    return type_slots.remark(owner, key)


def constructor_problem(owner: type, name: str) -> str:
    """Return why a class cannot get a ``__new__`` in Python, or could not get rid of it again; empty where it can."""
    from patchcore.objects.type_slots import is_reversible  # ctypes, for the few who need it

    if isinstance(class_namespace(owner).get("__new__"), BuiltinFunctionType):
        return (
            f"{name}: {owner.__qualname__} is written in C, and its constructor would call a __new__ in Python without "
            "end; replace the names that refer to the class with a subclass, or patch its callers"
        )
    if not is_reversible(owner, "__new__"):
        return (
            f"{name}: on this Python version, the constructor of {owner.__qualname__} would stay changed after a "
            f"revert; target '{name[: -len('__new__')]}__init__' instead"
        )
    return ""


def _forget_checks() -> None:
    """Clear the caches of abstract classes: they judge a class by its special methods, and remember the result.

    ``isinstance(thing, collections.abc.Sized)`` stays true otherwise when a ``__len__`` is taken away.
    """
    seen: dict[int, type] = {}  # by id: a metaclass may decide what is equal
    todo: list[type] = [object]
    while todo:
        new = {id(klass): klass for klass in type.__subclasses__(todo.pop()) if id(klass) not in seen}
        seen.update(new)
        todo += new.values()
    for klass in seen.values():
        if issubclass(type(klass), ABCMeta):
            with contextlib.suppress(AttributeError, TypeError):  # one that is being made
                ABCMeta._abc_caches_clear(klass)  # type: ignore[attr-defined]
