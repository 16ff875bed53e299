"""Before and after: what a function that patches by hand has changed under a package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from patchcore.changes import REGISTRY_TABLE
from patchcore.modules import namespace
from patchcore.target import ABSENT, ClassSlot, Item, ItemSlot, NamespaceSlot, Slot, Target

__all__ = ["Edit", "Snapshot"]

_class_dict = type.__dict__["__dict__"].__get__

# what Python itself keeps in namespaces; edits of these are not patches
_BOOKKEEPING = frozenset(
    {"__builtins__", "__cached__", "__warningregistry__", "__dict__", "__weakref__", "_abc_impl", "__abstractmethods__"}
)


class Edit(NamedTuple):
    """One difference: the slot, the raw values before and after (``ABSENT`` where there was none), its target."""

    slot: Slot
    before: Any
    after: Any
    target: Target


class _Space(NamedTuple):
    owner: Any
    kind: type
    target: Target  # of the owner; the path is empty for a module
    content: dict[Any, Any]


class Snapshot:
    """A copy of the namespaces of the loaded modules, their classes and their registries under one top-level package.

    Args:
        root: name of the package.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._spaces: dict[int, _Space] = {}
        for name, module in list(sys.modules.items()):
            if name == root or name.startswith(f"{root}."):
                self.add(name, module)

    def add(self, name: str, module: ModuleType) -> None:
        """Take in a module, as one is imported while the function runs; a module already known keeps its first copy."""
        space = namespace(module)
        if space is None or id(space) in self._spaces:
            return
        self._keep(module, NamespaceSlot, Target(name, ()), space)
        for key, value in list(space.items()):
            if isinstance(value, type):
                self._add_class(value, name)
            elif isinstance(key, str):
                table = (namespace(value) or {}).get(REGISTRY_TABLE)
                if isinstance(table, dict):
                    self._keep(table, ItemSlot, Target(name, (key, REGISTRY_TABLE)), table)

    def edits(self) -> Iterator[Edit]:
        """Yield every difference between the copy and now."""
        for owner, kind, target, before in self._spaces.values():
            now = (
                dict(_class_dict(owner)) if kind is ClassSlot else owner if kind is ItemSlot else namespace(owner) or {}
            )
            for key in [*before, *(key for key in list(now) if key not in before)]:
                old, new = before.get(key, ABSENT), now.get(key, ABSENT)
                if old is not new and key not in _BOOKKEEPING and not self._is_import_effect(target, key, old, new):
                    step = Item(key) if kind is ItemSlot else key
                    where = Target(target.module, (*target.path, step))
                    yield Edit(kind(owner, key, str(where)), old, new, where)

    def _is_import_effect(self, target: Target, key: Any, old: Any, new: Any) -> bool:
        """Importing ``a.b`` binds ``b`` in ``a``: an effect of an import, not an edit."""
        return old is ABSENT and isinstance(new, ModuleType) and new.__name__ == f"{target.module}.{key}"

    def _add_class(self, klass: type, module: str) -> None:
        if klass.__module__.partition(".")[0] != self._root or id(klass) in self._spaces:
            return
        self._keep(klass, ClassSlot, Target(klass.__module__, tuple(klass.__qualname__.split("."))), _class_dict(klass))
        for value in list(_class_dict(klass).values()):
            if isinstance(value, type):
                self._add_class(value, module)

    def _keep(self, owner: Any, kind: type, target: Target, content: Any) -> None:
        key = id(namespace(owner)) if kind is NamespaceSlot else id(owner)
        self._spaces.setdefault(key, _Space(owner, kind, target, dict(content)))
