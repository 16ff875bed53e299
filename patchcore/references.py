"""By-value references: names that took a patched object before the patch, or its replacement while patched.

``from mmcv.ops import deform_conv2d as f`` binds ``f`` to the object; replacing ``mmcv.ops:deform_conv2d`` later does not
reach it. :func:`find_references` finds such names by identity, whatever they are called: globals of loaded modules, attributes of
their classes, entries of OpenMMLab registries. It looks at every module's dictionary with one C-level membership test per
value for all objects together, so its cost does not grow with the number of patches, and opens classes and registries only
in modules that can reach one of the objects by name. :func:`find_unreachable` uses the garbage collector to find what
is left: closures, default arguments, containers.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Optional

from patchcore.binding import reference, wrapped_callable
from patchcore.changes import REGISTRY_TABLE
from patchcore.modules import namespace
from patchcore.target import ClassSlot, Item, NamespaceSlot, Slot, Target, slot_of

__all__ = ["Unreachable", "find_references", "find_unreachable", "is_home", "names_read_by"]

_CHUNK = 64  # gc.get_referrers compares every reference in the process with each object it is given
_NOT_REGISTRIES = (ModuleType, FunctionType, BuiltinFunctionType, str, int, float, type(None))
_class_dict = type.__dict__["__dict__"].__get__


class Unreachable(NamedTuple):
    """A reference to an original that cannot be rebound: what kind of place it is, and where."""

    kind: str
    where: str


def is_home(target: Target, original: Any) -> bool:
    """Tell whether ``target`` names the object itself, rather than a name that some module gave it.

    It does where the object was defined and in the packages around that (``mmcv.ops:roi_align`` for
    ``mmcv.ops.roi_align:roi_align``); an object whose own name leads nowhere is at home everywhere. Patching
    ``mymodel.layers:relu``, imported from torch, must not change torch's.
    """
    module, qualname = getattr(original, "__module__", None), getattr(original, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        return True
    if module == target.module:
        return ".".join(map(str, target.path)) == qualname or _follow(module, qualname) is not original
    if module.startswith(f"{target.module}."):
        return True
    return _follow(module, qualname) is not original


def find_references(objects: Iterable[Any], modules: Mapping[str, ModuleType]) -> list[tuple[Slot, Any]]:
    """Return the slots in ``modules`` that hold one of ``objects`` itself, each with that object.

    Args:
        objects: what to look for, by identity.
        modules: loaded modules by name, a copy that no other thread changes.
    """
    wanted = {id(obj): obj for obj in objects}
    if not wanted:
        return []
    spaces = [(name, module, space) for name, module in modules.items() if (space := namespace(module)) is not None]
    gateways = _gateways(wanted, modules)
    keys = {*wanted, *gateways}
    found: dict[tuple[int, str, Any], tuple[Slot, Any]] = {}
    for name, module, space in spaces:
        # one pass in C per module: copying the values first keeps other threads' imports from interfering
        if keys.isdisjoint(map(id, list(space.values()))):
            continue
        for slot, held in _in_module(name, module, space, wanted):
            found.setdefault(slot.identity, (slot, held))
    return list(found.values())


def names_read_by(source: Any) -> set[tuple[int, str]]:
    """Return the globals, as ``(id(namespace), name)``, that a replacement's code reads, itself or through its own package.

    A replacement may call the original under a name it imported; that name has to stay the original.
    """
    root = _root(source)
    found: set[tuple[int, str]] = set()
    seen: set[int] = set()
    todo = list(_functions(source))
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        names = set(_code_names(function.__code__))
        for name in names & function.__globals__.keys():
            value = function.__globals__[name]
            found.add((id(function.__globals__), name))
            if isinstance(value, ModuleType):
                space = namespace(value) or {}
                candidates = [(space, key) for key in names & space.keys()]
                found.update((id(space), key) for _, key in candidates if _root(space.get(key)) == root)
                todo.extend(f for _, key in candidates for f in _functions(space[key]) if _root(f) == root)
            elif _root(value) == root:
                todo.extend(_functions(value))
    return found


def find_unreachable(originals: Iterable[Any], ours: Iterable[Any] = ()) -> list[tuple[Any, Unreachable]]:
    """Return the places outside modules, classes and registries that still hold one of ``originals``, with that object.

    Walks every object the garbage collector tracks, tens of milliseconds with torch loaded: for reports, not for apply.

    Args:
        originals: objects that were replaced.
        ours: objects whose holding them is known, such as the journal's layers and the wrappers around them.
    """
    ignored = {id(obj) for obj in ours}
    unique = list({id(obj): obj for obj in originals}.values())
    found: dict[tuple[int, Unreachable], tuple[Any, Unreachable]] = {}
    for start in range(0, len(unique), _CHUNK):
        chunk = {id(obj): obj for obj in unique[start : start + _CHUNK]}
        for holder in gc.get_referrers(*chunk.values()):
            if id(holder) in ignored or id(holder) == id(chunk):
                continue
            for held in gc.get_referents(holder):
                place = _place_of(holder, ignored) if id(held) in chunk else None
                if place is not None:
                    found[id(held), place] = held, place
    return sorted(found.values(), key=lambda pair: pair[1])


def _in_module(
    name: str, module: Any, space: Mapping[str, Any], wanted: Mapping[int, Any]
) -> Iterator[tuple[Slot, Any]]:
    for key, value in list(space.items()):
        if id(value) in wanted and isinstance(key, str):
            yield NamespaceSlot(module, key, f"{name}:{key}"), value
        if isinstance(value, type):
            if value.__module__ == name:
                yield from _in_class(value, f"{name}:{value.__qualname__}", wanted)
        elif not isinstance(value, _NOT_REGISTRIES):
            yield from _in_registry(value, f"{name}:{key}", wanted)


def _in_class(klass: type, name: str, wanted: Mapping[int, Any]) -> Iterator[tuple[Slot, Any]]:
    for key, raw in list(_class_dict(klass).items()):
        held = raw if id(raw) in wanted else reference(raw)
        if id(held) in wanted:
            yield StaticSlot.of(klass, key, f"{name}.{key}", raw), held
        elif isinstance(raw, type) and raw.__qualname__ == f"{klass.__qualname__}.{key}":
            yield from _in_class(raw, f"{name}.{key}", wanted)


def _in_registry(value: Any, name: str, wanted: Mapping[int, Any]) -> Iterator[tuple[Slot, Any]]:
    table = (namespace(value) or {}).get(REGISTRY_TABLE)
    if isinstance(table, dict):
        for key, held in list(table.items()):
            if id(held) in wanted:
                yield slot_of(table, Item(key), f"{name}.{REGISTRY_TABLE}[{key!r}]"), held


class StaticSlot(ClassSlot):
    """A class attribute whose ``staticmethod`` holds the reference: seen and written without its wrapping."""

    __slots__ = ()

    @staticmethod
    def of(klass: type, key: str, name: str, raw: Any) -> Slot:
        """Return the slot fit for ``raw``: a plain one, or one that unpacks a ``staticmethod``."""
        return (StaticSlot if isinstance(raw, staticmethod) else ClassSlot)(klass, key, name)

    def read(self) -> Any:
        return reference(super().read())

    def write(self, raw: Any) -> None:
        super().write(staticmethod(raw))


def _gateways(wanted: Mapping[int, Any], modules: Mapping[str, ModuleType]) -> set[int]:
    """Ids of the modules through which a class body can reach a wanted object as ``module.name`` without naming it."""
    found: set[int] = set()
    for obj in wanted.values():
        module = getattr(obj, "__module__", None)
        while isinstance(module, str) and module:
            if module in modules:
                found.add(id(modules[module]))
            module = module.rpartition(".")[0]
    return found


def _follow(module: str, qualname: str) -> Any:
    value: Any = sys.modules.get(module)
    for name in qualname.split("."):
        if isinstance(value, type):
            value = reference(_class_dict(value).get(name))
        else:
            value = (namespace(value) or {}).get(name)
    return value


def _root(value: Any) -> Optional[str]:
    module = getattr(value, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else None


def _functions(source: Any) -> Iterator[FunctionType]:
    source = wrapped_callable(source)
    if isinstance(source, MethodType):
        source = source.__func__
    if isinstance(source, FunctionType):
        yield source
        for cell in source.__closure__ or ():
            try:
                if isinstance(cell.cell_contents, FunctionType):
                    yield cell.cell_contents
            except ValueError:  # a cell that is not filled yet
                continue
    elif isinstance(source, type):
        for raw in list(_class_dict(source).values()):
            inner = wrapped_callable(raw)
            if isinstance(inner, FunctionType):
                yield inner


def _code_names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _code_names(constant)


def _place_of(holder: Any, ignored: set[int]) -> Optional[Unreachable]:
    if isinstance(holder, CellType):
        for cells in gc.get_referrers(holder):
            for owner in gc.get_referrers(cells) if isinstance(cells, tuple) else ():
                if isinstance(owner, FunctionType) and owner.__closure__ is cells and id(owner) not in ignored:
                    return Unreachable("closure", _function_place(owner))
        return None
    if isinstance(holder, (tuple, dict)):
        for owner in gc.get_referrers(holder):
            if isinstance(owner, FunctionType) and (owner.__defaults__ is holder or owner.__kwdefaults__ is holder):
                return Unreachable("default argument", _function_place(owner))
    if isinstance(holder, (tuple, dict, list, set, MethodType, functools.partial)):
        name = _name_of_container(holder)
        return Unreachable(type(holder).__name__, name) if name else None
    return None


def _name_of_container(container: Any) -> Optional[str]:
    """The module global or class attribute that holds the container, if one does."""
    for name, module in list(sys.modules.items()):
        space = namespace(module)
        if space is None or name.partition(".")[0] == "patchcore":
            continue
        for key, value in list(space.items()):
            if value is container:
                return f"{name}:{key}"
            if isinstance(value, type) and value.__module__ == name:
                for attribute, raw in list(_class_dict(value).items()):
                    if raw is container:
                        return f"{name}:{value.__qualname__}.{attribute}"
    return None


def _function_place(function: FunctionType) -> str:
    code = function.__code__
    return f"{function.__module__}:{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
