"""Checks whether all references to some objects have been found, so that no further name can hold one of them.

One or two names hold most functions. The interpreter counts the references to an object. The search for names can stop
when it has found that many references, in names and in patchcore's own tables. A reference that this module does not
recognize, for example one in an instance, only makes the search go on; it never makes the search stop early.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CellType, FunctionType, GetSetDescriptorType, MethodType, ModuleType
from typing import Any

from patchcore.objects.modules import class_namespace, is_class

__all__ = ["EXACT", "Unaccounted", "lazy_modules_exist"]

#: The most objects that are counted. Among many objects, at least one has references that are not recognized.
_FEW = 64
#: The most references that an object may have. Of more, as of ``int`` or ``object``, some are never recognized.
_MANY = 1_000
#: The most containers that are examined.
_MOST = 10_000
#: Types whose contents are examined, too. Dictionaries are not among them: one may be the table of a registry, whose
#: entries the search for names counts.
_TYPES = (FunctionType, CellType, GetSetDescriptorType, MethodType, partial, tuple, staticmethod, classmethod, property)
_WAYS = frozenset(map(id, _TYPES))  # a metaclass may define __eq__ and __hash__
#: Whether this interpreter counts references exactly. A free-threaded one counts them for each thread separately.
EXACT = hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()


class Unaccounted:
    """The references to some objects that have not been found yet.

    Args:
        objects: the objects by ``id``.
        keepers: containers that may refer to the objects and hold no names: parts of patchcore, lists of the caller.
    """

    def __init__(self, objects: Mapping[int, Any], keepers: Iterable[Any]) -> None:
        self._counts = EXACT and len(objects) <= _FEW and max([0, *map(sys.getrefcount, objects.values())]) < _MANY
        # Under 0, which is no `id`, an object to which nothing but this table refers. Its count has the references that
        # the counting adds itself, and `__bool__` subtracts them from the other counts.
        self._objects = {0: object(), **objects}
        self._accounted = dict.fromkeys(objects, 0)
        if self._counts:
            classes = [klass for klass in objects.values() if is_class(klass)]
            self._look([objects, *keepers, *(part for klass in classes for part in _parts(klass))])

    def found(self, key: int) -> None:
        """Count a name that holds the object with this ``id``."""
        self._accounted[key] += 1

    def __bool__(self) -> bool:
        """False when every reference has been found; a local variable of a running function is a reference, too."""
        if not self._counts:
            return True
        counts = map(sys.getrefcount, self._objects.values())
        base = next(counts)  # of an object to which only the table refers
        return any(count - base > known for count, known in zip(counts, self._accounted.values()))

    def _look(self, keepers: Iterable[Any]) -> None:
        seen: set[int] = set()
        level = {id(keeper): keeper for keeper in keepers}
        while level and len(seen) + len(level) <= _MOST:
            seen.update(level)
            # One call for all of them; a call for each would take most of the time. It returns an object once for each
            # reference, and that is what is counted. Objects that the collector does not track have no referents.
            held = gc.get_referents(*level.values())
            for key in filter(self._accounted.__contains__, map(id, held)):
                self._accounted[key] += 1
            inner = [value for value in held if id(type(value)) in _WAYS and id(value) not in self._objects]
            inner += [keeper.__dict__ for keeper in level.values() if type(keeper) is FunctionType]
            level = {id(value): value for value in inner if id(value) not in seen}


def _parts(klass: type) -> Iterator[Any]:
    """Yield the referrers of a class: the class itself, values in its namespace, and its subclasses."""
    yield from (value for value in class_namespace(klass).values() if id(type(value)) in _WAYS)
    todo = [klass]
    for sub in todo:
        yield sub
        todo += type.__subclasses__(sub)


class _WithoutInstances(ModuleType):
    """A class like ``importlib.util._LazyModule`` that nobody makes instances of."""


def lazy_modules_exist() -> bool:
    """Return False if there is no module whose execution ``importlib.util.LazyLoader`` has put off.

    An instance refers to its class. So if ``_LazyModule`` has as many references as a class without instances, there
    are no lazy modules. Each import of a watched module needs to know that, and looking at all loaded modules takes
    longer: there are thousands in a training program. ``_LazyModule`` has a name more than the other class, the one in
    :mod:`patchcore.objects.modules`.
    """
    if not EXACT:
        return True
    lazy = sys.getrefcount(importlib.util._LazyModule)  # type: ignore[attr-defined]
    return lazy != sys.getrefcount(_WithoutInstances) + 1
