"""Whether all references to some objects are accounted for, so that no further name can hold one of them.

Most functions are held by one or two names. The interpreter counts the references to an object: once that many were
found, in names and in what patchcore keeps itself, a search for names may end. It counts as the garbage collector does,
and errs to one side: a reference that is not looked for here, such as one in an instance, lets the search go on.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CellType, FunctionType, GetSetDescriptorType, MethodType
from typing import Any

from patchcore.objects.modules import class_namespace, is_class

__all__ = ["Unaccounted"]

#: For how many objects it is worth it: of many, one has references that are not looked for.
_FEW = 64
#: How much of what refers to the objects is looked at.
_MOST = 10_000
#: What leads on to the objects and is no place for a name: no dictionary, which may be that of a registry.
_WAYS = (FunctionType, CellType, GetSetDescriptorType, MethodType, partial, tuple, staticmethod, classmethod, property)
# without the lock that it is named after the interpreter counts for each thread, and not at once
_EXACT = hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()


class _Probe:
    """An object with no references but those that the count itself makes."""


class Unaccounted:
    """The references to some objects that were not found yet.

    Args:
        objects: the objects by ``id``.
        keepers: what may refer to them and holds no names: parts of patchcore, lists of the caller.
    """

    def __init__(self, objects: Mapping[int, Any], keepers: Iterable[Any]) -> None:
        self._counts = _EXACT and len(objects) <= _FEW
        self._objects = {0: _Probe(), **objects}
        self._accounted = dict.fromkeys(objects, 0)
        if self._counts:
            classes = [klass for klass in objects.values() if is_class(klass)]
            self._look([objects, *keepers, *(part for klass in classes for part in _parts(klass))])

    def found(self, key: int) -> None:
        """Take note of a name that holds the object with this ``id``."""
        self._accounted[key] += 1

    def __bool__(self) -> bool:
        """False once every reference was found; what a running function holds in a variable counts as a reference."""
        if not self._counts:
            return True
        counts = map(sys.getrefcount, self._objects.values())
        base = next(counts)  # of the probe, which has none but that of the table
        return any(count - base > known for count, known in zip(counts, self._accounted.values()))

    def _look(self, todo: list[Any]) -> None:
        seen: set[int] = set()
        while todo and len(seen) < _MOST:
            keeper = todo.pop()
            if id(keeper) in seen:
                continue
            seen.add(id(keeper))
            held = gc.get_referents(keeper)
            if type(keeper) is FunctionType:
                todo.append(keeper.__dict__)
            for key in map(id, held):
                if key in self._accounted:
                    self._accounted[key] += 1
            todo += [value for value in held if type(value) in _WAYS and id(value) not in self._objects]


def _parts(klass: type) -> Iterator[Any]:
    """Return what of a class refers to it: itself, its namespace, and the classes under it, which list their bases."""
    yield from (value for value in class_namespace(klass).values() if type(value) in _WAYS)
    todo = [klass]
    for sub in todo:
        yield sub
        todo += type.__subclasses__(sub)
