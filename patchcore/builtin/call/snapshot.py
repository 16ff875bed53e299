"""Finds the edits of a function that patches by hand: snapshots of a package before and after its call."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from patchcore.declare.registries import find_table
from patchcore.declare.slots import ClassSlot, EntrySlot, ItemSlot, NamespaceSlot, Slot
from patchcore.declare.target import Item, Target
from patchcore.objects.modules import ABSENT, class_namespace, is_class, namespace_of

__all__ = ["Edit", "Snapshot"]

# names that Python itself keeps in namespaces; edits of these are not patches
_BOOKKEEPING = frozenset(
    ("__builtins__", "__cached__", "__warningregistry__", "__annotations__", "__annotations_cache__")
    + ("__annotate__", "__annotate_func__", "__conditional_annotations__")
    + ("__dict__", "__weakref__", "__slotnames__", "_abc_impl", "__abstractmethods__")
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
    """A copy of the loaded modules under top-level packages, of their classes, their tables and their registries.

    Args:
        roots: names of the packages.
        tables: names of attributes in which registries keep their entries.

    Examples:
        >>> import string
        >>> from patchcore.plugin import Snapshot
        >>> snapshot = Snapshot("string")
        >>> string.price = 3
        >>> [str(edit.target) for edit in snapshot.edits()]
        ['string:price']
        >>> del string.price
    """

    def __init__(self, *roots: str, tables: Sequence[str] = ()) -> None:
        self._tables = tables
        self._roots = frozenset(roots)
        self._spaces: dict[int, _Space] = {}
        self._imported: set[str] = set()
        for name, module in sys.modules.copy().items():
            if name.partition(".")[0] in self._roots:
                self._add_module(name, module)

    def add(self, name: str, module: ModuleType) -> None:
        """Take in a module that has been imported since; one that is known already keeps its first copy."""
        self._imported.add(name)
        self._add_module(name, module)

    def edits(self) -> Iterator[Edit]:
        """Yield every difference between the copy and now."""
        for owner, kind, target, before in self._spaces.values():
            now = _content(owner, kind)
            for key in [*before, *(key for key in list(now) if key not in before)]:
                old, new = before.get(key, ABSENT), now.get(key, ABSENT)
                if old is not new and key not in _BOOKKEEPING and not self._is_import_effect(target, key, old, new):
                    step = Item(key) if issubclass(kind, ItemSlot) else key
                    where = Target(target.module, (*target.path, step))
                    yield Edit(kind(owner, key, str(where)), old, new, where)

    def _is_import_effect(self, target: Target, key: Any, old: Any, new: Any) -> bool:
        """Return whether an import made the difference: ``a.b`` is bound in ``a``, its classes register themselves."""
        if old is not ABSENT:
            return False
        if issubclass(type(new), ModuleType):
            return (namespace_of(new) or {}).get("__name__") == f"{target.module}.{key}"
        return bool(target.path) and is_class(new) and new.__module__ in self._imported

    def _add_module(self, name: str, module: ModuleType) -> None:
        space = namespace_of(module)
        if space is None or id(space) in self._spaces:
            return
        self._keep(module, NamespaceSlot, Target(name, ()))
        for key, value in list(space.items()):
            if is_class(value):
                self._add_class(value)
            elif not isinstance(key, str) or key in _BOOKKEEPING or value is sys.modules:
                continue
            elif issubclass(type(value), dict):
                self._keep(value, ItemSlot, Target(name, (key,)))
            else:
                found = find_table(value, self._tables)
                if found is not None:
                    self._keep(found[1], EntrySlot, Target(name, (key,)))

    def _add_class(self, klass: type) -> None:
        module = class_namespace(klass).get("__module__")
        if not isinstance(module, str) or module.partition(".")[0] not in self._roots or id(klass) in self._spaces:
            return
        self._keep(klass, ClassSlot, Target(module, tuple(klass.__qualname__.split("."))))
        for value in list(class_namespace(klass).values()):
            if is_class(value):
                self._add_class(value)

    def _keep(self, owner: Any, kind: type, target: Target) -> None:
        content = _content(owner, kind)
        key = id(content) if kind is NamespaceSlot else id(owner)
        self._spaces.setdefault(key, _Space(owner, kind, target, dict(content)))


def _content(owner: Any, kind: type) -> Mapping[Any, Any]:
    if kind is ClassSlot:
        return class_namespace(owner)
    return owner if issubclass(kind, ItemSlot) else namespace_of(owner) or {}
