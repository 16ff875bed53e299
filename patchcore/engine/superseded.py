"""Modules that were imported again: :func:`is_used` returns whether other code keeps the old one alive.

After ``del sys.modules["lib"]; import lib`` there are two modules. The old one stays patched as long as other code uses
a function, a class or a table of it. After that there is nothing left to restore, and the journal drops its records:
otherwise they would keep the old module in memory.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable
from types import FrameType, FunctionType, ModuleType
from typing import Any, Optional

from patchcore.objects.modules import class_namespace, is_class, loaded_modules, mro, namespace_of
from patchcore.stdlib import OWN

__all__ = ["is_used"]

#: How many objects are looked at. A module that leads to more is taken to be used.
_MOST = 100_000


def is_used(name: str, owners: list[Any], ours: list[Any], tables: Iterable[Any]) -> bool:
    """True if other code refers to one of ``owners``, directly or through another object.

    It counts as the garbage collector does: an object with more references than those from inside the group is used
    from outside.

    Args:
        name: of the module that was imported again.
        owners: the old module, and its classes and other namespaces that were written to.
        ours: the journal's records of them.
        tables: the journal's tables that refer to some of these objects.
    """
    inside = _inside(name, [*owners, *ours])
    if inside is None:
        return True
    # a function uses the namespace of its module, not the module
    wanted = {id(obj) for owner in owners for obj in (owner, namespace_of(owner)) if obj is not None}
    probe = object()  # only the count itself refers to it
    probe_key = id(probe)
    inside[probe_key] = probe
    del probe
    references: Counter[int] = Counter()
    for held in (gc.get_referents(value) for values in (inside.values(), (owners, ours), tables) for value in values):
        references.update(key for key in map(id, held) if key in inside)
    del held
    surplus = {key: sys.getrefcount(inside[key]) - references[key] for key in inside}
    known = set(map(id, ours))
    todo = [key for key in inside if surplus[key] > surplus[probe_key] and key not in known]
    used = set(todo)
    for key in todo:
        if key in wanted:
            return True
        further = {other for other in map(id, gc.get_referents(inside[key])) if other in inside} - used
        used |= further
        todo += further
    return False


def _inside(name: str, todo: list[Any]) -> Optional[dict[int, Any]]:
    """Return the objects that can be reached without passing another module, ``None`` if there are too many."""
    others = {id(namespace_of(module)) for module in loaded_modules().values()}
    found: dict[int, Any] = {}
    while todo:
        value = todo.pop()
        key = id(value)
        if key not in found and key not in others and gc.is_tracked(value) and _belongs(value, name, others):
            found[key] = value
            if len(found) > _MOST:
                return None
            todo += gc.get_referents(value)
    return found


def _belongs(value: Any, name: str, others: set[int]) -> bool:
    kind: type = type(value)
    if kind is FunctionType:
        # a wrapper of patchcore has the __module__ of its target, and globals of its own
        return bool(value.__module__ == name)
    if is_class(value):
        module = class_namespace(value).get("__module__")
        return type(module) is str and module == name
    if issubclass(kind, ModuleType):
        space = namespace_of(value)
        return space is not None and id(space) not in others and space.get("__name__") == name
    return kind is not FrameType and not any(_is_engine(klass) for klass in mro(kind))


def _is_engine(klass: type) -> bool:
    module = class_namespace(klass).get("__module__")
    if type(module) is not str or module.partition(".")[0] not in OWN:
        return False
    return module not in (
        "patchcore.engine.journal",
        "patchcore.declare.slots",
        "patchcore.engine.references",
        "patchcore.objects.bodies",
    )
