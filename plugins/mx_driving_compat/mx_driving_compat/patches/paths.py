"""Resolves dotted paths, ``package.module.Class.attribute``, in which the end of the module is not marked."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, MutableMapping
from types import ModuleType
from typing import Any, Optional

from patchcore import Target, TargetError
from patchcore.plugin import (
    ABSENT,
    Item,
    NamespaceSlot,
    Slot,
    StubModule,
    StubSpec,
    did_you_mean,
    executed_module,
    find_module,
    resolve,
    slot_of,
)

__all__ = [
    "TABLES",
    "Libraries",
    "Missing",
    "dotted",
    "import_module",
    "is_stub",
    "is_there",
    "locate",
    "object_at",
    "reference_to",
    "target_of",
]

#: The attribute in which registries of mmcv and mmengine keep their entries.
TABLES = ("_module_dict",)


def target_of(path: str, is_module: Callable[[str], bool] = find_module) -> Target:
    """Return the target of a dotted path: the module is the longest that can be found. Imports nothing.

    Args:
        path: the dotted path.
        is_module: tells whether a module can be found.

    Raises:
        TargetError: the path is malformed, or names a module as a whole.
    """
    return Target.parse(path).pin(is_module)


def dotted(target: Target) -> str:
    """Return a target as a dotted path."""
    return ".".join([target.module, *(str(getattr(step, "key", step)) for step in target.path)])


def import_module(name: str) -> Optional[str]:
    """Import a module; return why that was not possible, ``None`` if it was.

    Raises:
        Exception: the body of the module raises something other than ``ImportError``.
    """
    try:
        importlib.import_module(name)
    except ImportError as error:
        missing = getattr(error, "name", None)
        if missing and f"{name}.".startswith(f"{missing}."):
            return f"module not found: {missing}"
        return f"module {name} cannot be imported: {error}"
    return None


def is_there(name: str) -> bool:
    """Return whether a top-level module can be imported, a stub included. Imports nothing."""
    if name in sys.modules:
        return sys.modules[name] is not None
    return bool(name) and importlib.util.find_spec(name) is not None


def is_stub(name: str) -> bool:
    """Return whether importing a top-level module returns a stub."""
    module = sys.modules.get(name)
    if module is not None:
        return issubclass(type(module), StubModule)
    return name not in sys.modules and isinstance(importlib.util.find_spec(name), StubSpec)


class Libraries:
    """Answers about modules while nothing is imported: each is looked for once, as that walks the search path.

    Attributes:
        is_there, is_stub: the functions of these names.
        is_module: :func:`patchcore.objects.modules.find_module`.
    """

    def __init__(self) -> None:
        self.is_there: Callable[[str], bool] = functools.cache(is_there)
        self.is_stub: Callable[[str], bool] = functools.cache(is_stub)
        self.is_module: Callable[[str], bool] = functools.cache(find_module)
        self._owners: dict[str, Target] = {}  # the part of a path before its last dot, as the target of something in it

    def target_of(self, path: str) -> Target:
        """Return the same as :func:`target_of`, faster: many paths differ in the last name only."""
        owner, _, name = path.rpartition(".")
        if not (name.isascii() and name.isidentifier()):
            return target_of(path, self.is_module)
        if owner not in self._owners:
            self._owners[owner] = target_of(path, self.is_module)
        module, steps = self._owners[owner]
        return Target(module, (*steps[:-1], name))


def reference_to(path: str) -> Target:
    """Return the target of a dotted path, which may also name a module. Imports nothing.

    Raises:
        TargetError: the path is malformed.
    """
    return Target(path, ()) if "." not in path or find_module(path) else target_of(path)


def object_at(path: str) -> Any:
    """Import the object that a dotted path names; a static method is returned as the ``staticmethod`` object.

    Raises:
        TargetError: the path is malformed.
        ImportError: a module on the way cannot be imported.
        TargetNotFound: there is no such object; the message has the nearest name.
    """
    return resolve(reference_to(path), raw=True)


class Missing(NamespaceSlot):
    """The slot of a target whose owner does not exist.

    Args:
        module: of the target.
        target: the target.
        why: the step of the path that does not exist.
    """

    __slots__ = ("why",)

    def __init__(self, module: Any, target: Target, why: str) -> None:
        super().__init__(module, dotted(target), str(target))
        self.why = why


def locate(target: Target, module: Any) -> Slot:
    """Return the slot of a target, :class:`Missing` if there is none; import submodules that the path names.

    A step into a mapping is an item of it, as migrations write ``package.TABLE.key``.

    Args:
        target: with its module.
        module: the module of the target, executed.

    Raises:
        TargetError: the object there cannot be changed.
    """
    if len(target.path) == 1 and type(module) is ModuleType:
        return slot_of(module, target.path[0], str(target))  # most targets
    owner, path = module, target.module
    for depth, step in enumerate(target.path):
        if isinstance(owner, MutableMapping) and isinstance(step, str):
            step = Item(step)
        slot = slot_of(owner, step, str(Target(target.module, (*target.path[:depth], step))))
        if depth + 1 == len(target.path):
            return slot
        path = f"{path}{step}" if isinstance(step, Item) else f"{path}.{step}"
        owner = slot.lookup()
        if owner is ABSENT and import_module(path) is None:
            owner = executed_module(path)
        if owner is None or owner is ABSENT:
            return Missing(module, target, f"{path} does not exist{did_you_mean(str(slot.key), slot.names())}")
    raise TargetError(f"target {target} names nothing in a module")
