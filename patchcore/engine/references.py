"""By-value references: names that took a patched object before the patch, or its replacement while patched.

``from mmcv.ops import deform_conv2d as f`` binds ``f`` to the object; replacing ``mmcv.ops:deform_conv2d`` later does
not reach it. :func:`find_references` finds such names by identity, under any name: globals of loaded modules,
attributes of their classes, entries of OpenMMLab registries. It looks at every module's dictionary with one C-level
membership test per value for all objects together, so its cost does not grow with the number of patches, and opens
classes and registries only in modules that can reach one of the objects by name. It looks at the packages of the
objects first, because most names are there, and stops as soon as :class:`~patchcore.engine.unaccounted.Unaccounted`
has counted all references. :mod:`patchcore.builtin.holders.search` finds holders that are not rebound, for reports.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Callable, Optional, Union

from patchcore.declare.changes import resolve
from patchcore.declare.registries import find_table
from patchcore.declare.slots import ClassSlot, EntrySlot, NamespaceSlot, Slot
from patchcore.declare.target import Item, Target
from patchcore.engine.unaccounted import Unaccounted
from patchcore.objects.binding import bind_like, find_named, held_value
from patchcore.objects.bodies import patched_body
from patchcore.objects.modules import (
    ABSENT,
    class_namespace,
    closed_over,
    is_class,
    is_immutable,
    namespace_of,
    qualified_name,
)
from patchcore.stdlib import OWN

__all__ = [
    "StaticSlot",
    "find_references",
    "functions_of",
    "is_home",
    "means",
    "name_of",
    "names_read_by",
    "own_names",
    "root_of",
    "same_names",
]


def same_names(slot: Slot, held: Any) -> list[Slot]:
    """Return the names of other loaded modules that are equal to that of ``slot`` and hold the same object ``held``."""
    found: list[Slot] = []
    for name, module in sys.modules.copy().items() if type(slot.key) is str and held is not ABSENT else ():
        space = namespace_of(module)
        if module is not slot.owner and space is not None and space.get(slot.key, ABSENT) is held:
            found.append(NamespaceSlot(module, slot.key, f"{name}:{slot.key}"))
    return found


def is_home(target: Target, original: Any) -> bool:
    """True if ``target`` is where the object is defined, or a name of it in a package around that module.

    It does where the object was defined and in the packages around that (``mmcv.ops:roi_align`` for
    ``mmcv.ops.roi_align:roi_align``); an object whose own name leads nowhere is at home everywhere. Patching
    ``mymodel.layers:relu``, imported from torch, must not change torch's, nor ``mymodel.layers:np`` all of numpy.
    """
    module, qualname = name_of(original)
    if issubclass(type(original), ModuleType):
        return module.startswith(f"{target.module}.") or (module == target.module and not target.path)
    if not module or module.startswith(f"{target.module}."):
        return True
    is_named = module == target.module and ".".join(map(str, target.path)) == qualname
    return is_named or find_named(module, qualname) is not original


def find_references(
    objects: list[Any],
    modules: Mapping[str, ModuleType],
    signs: Sequence[Any] = (),
    keepers: Iterable[Any] = (),
    replaced: Iterable[type] = (),
    tables: Iterable[str] = (),
) -> list[tuple[Slot, Any]]:
    """Return the slots in ``modules`` that hold one of ``objects`` itself, each with that object.

    It ends as soon as all references to the objects are accounted for, see :mod:`patchcore.engine.unaccounted`.

    Args:
        objects: the objects to look for, by identity.
        modules: loaded modules by name, a copy that no other thread changes.
        signs: replacements that are written already. A module that holds one of them is searched, too.
        keepers: containers of the caller that refer to the objects and hold no names.
        replaced: classes to which their own names do not lead now; instances and bases of others may be of them.
        tables: names of attributes in which registries keep their entries.
    """
    wanted = {id(obj): obj for obj in objects}
    unaccounted = Unaccounted(wanted, itertools.chain([objects, signs, keepers], keepers))
    if not unaccounted:
        return []
    search = _Search(wanted, unaccounted, tuple(tables))
    for klass in replaced:
        home = qualified_name(klass)[0]
        if home in modules:
            search.in_class(klass, home)
    homes, gateways = _surroundings([*wanted.values(), *signs], modules)
    keys = gateways.union(wanted, map(id, signs))
    # Globals of all modules first, their classes and registries later: a look at globals is one membership test a
    # value, one into classes is a loop in Python, and the search is mostly over before it comes to that.
    opened = []
    for name in _likeliest_first(modules, homes):
        module = modules[name]
        space = module.__dict__ if type(module) is ModuleType else namespace_of(module)
        # The values are copied by one call in C: between two calls another thread could change the dictionary.
        holds = space is not None and (name in homes or not keys.isdisjoint(map(id, list(space.values()))))
        if space is None or not holds or name.partition(".")[0] in OWN:  # patchcore goes on with the original
            continue
        search.in_globals(name, module, space)
        opened.append((name, space))
        if name in homes:
            search.in_classes(*opened.pop())
        if search.is_complete():
            return search.result()
    for name, space in opened:
        search.in_classes(name, space)
        if search.is_complete():
            break
    return search.result()


class _Search:
    """The part of :func:`find_references` that opens modules.

    Args:
        wanted: the objects looked for, by ``id``.
        unaccounted: the references to them.
        tables: names of attributes in which registries keep their entries.
    """

    def __init__(self, wanted: Mapping[int, Any], unaccounted: Unaccounted, tables: Sequence[str]) -> None:
        self._found: dict[tuple[int, str, Any], tuple[Slot, int]] = {}  # keys, as a reference to an object would count
        self._wanted = wanted
        self._unaccounted = unaccounted
        self._tables = tables
        self._counted = -1  # the number of slots found at the last count of references
        self._seen: set[int] = set()
        # types of values that need no closer look in a module, in a class: neither registries nor classes nor forms;
        # by id, as a metaclass may define __eq__ and __hash__
        kinds = (FunctionType, BuiltinFunctionType, ModuleType, ModuleSpec, SourceFileLoader, str, type(None))
        self._plain = set(map(id, kinds))
        self._plain_in_class = set(map(id, (FunctionType, property, classmethod, str, type(None))))

    def is_complete(self) -> bool:
        """Return whether all references are accounted for; counts them only if more were found since the last time."""
        # a count looks at every object, and most modules hold none of them
        before, self._counted = self._counted, len(self._found)
        return before != self._counted and not self._unaccounted

    def result(self) -> list[tuple[Slot, Any]]:
        """Return the slots that were found, each with its object."""
        return [(slot, self._wanted[key]) for slot, key in self._found.values()]

    def in_globals(self, name: str, module: Any, space: Mapping[str, Any]) -> None:
        """Look at the globals of a module."""
        # dict() copies in one step; a loop over the namespace itself raises RuntimeError when another thread, or a
        # finalizer, adds a name meanwhile
        for key, value in [(k, v) for k, v in dict(space).items() if id(v) in self._wanted and type(k) is str]:
            self._add(NamespaceSlot(module, key, f"{name}:{key}"), value)

    def in_classes(self, name: str, space: Mapping[str, Any]) -> None:
        """Look at the own classes of a module and at the registries it knows."""
        plain = self._plain
        for value in [value for value in list(space.values()) if id(type(value)) not in plain]:
            kind = type(value)
            if issubclass(kind, type):
                home = class_namespace(value).get("__module__")
                if type(home) is str and home == name:
                    self.in_class(value, name)
            elif not _dict_offset(kind):
                plain.add(id(kind))
            elif id(value) not in self._seen:
                self._seen.add(id(value))
                self._in_registry(value, name, space)

    def in_class(self, klass: type, module: str) -> None:
        """Look at the attributes of a class of a module, and of the classes in it."""
        wanted, plain = self._wanted, self._plain_in_class
        values = list(class_namespace(klass).values())
        if plain.issuperset(map(id, map(type, values))) and wanted.keys().isdisjoint(map(id, values)):
            return
        qualname = qualified_name(klass)[1]
        entries = [(key, raw) for key, raw in list(class_namespace(klass).items()) if type(key) is str]
        for key, raw in [(k, v) for k, v in entries if id(type(v)) not in plain or id(v) in wanted]:
            held = held_value(raw)
            if id(held) in wanted:
                if not is_immutable(klass):
                    self._add(StaticSlot.of(klass, key, f"{module}:{qualname}.{key}", raw), held)
            elif is_class(raw):
                if qualified_name(raw)[1] == f"{qualname}.{key}":
                    self.in_class(raw, module)
            elif not issubclass(type(raw), staticmethod):
                plain.add(id(type(raw)))

    def _in_registry(self, value: Any, module: str, space: Mapping[str, Any]) -> None:
        table, entries = find_table(value, self._tables) or ("", None)
        if entries is not None and not self._wanted.keys().isdisjoint(map(id, list(dict.values(entries)))):
            name = next((key for key, other in list(space.items()) if other is value and type(key) is str), "?")
            for key, held in list(dict.items(entries)):
                if id(held) in self._wanted and type(key) in (str, int):
                    self._add(EntrySlot(entries, key, f"{module}:{name}{Item(key)}", table), held)

    def _add(self, slot: Slot, held: Any) -> None:
        if slot.identity not in self._found:
            self._found[slot.identity] = slot, id(held)
            # Two names may share a staticmethod, which is one reference; each StaticSlot adds one of its own.
            self._unaccounted.found(id(held))


def _likeliest_first(modules: Iterable[str], homes: Mapping[str, None]) -> Iterator[str]:
    """Yield the names of the modules: homes, others of the same top-level packages, and the rest.

    Most references to an object are in its home modules and in the package of these.
    """
    yield from homes
    roots = {name.partition(".")[0] for name in homes}
    others = [name for name in modules if name not in homes]
    yield from sorted(others, key=lambda name: name.partition(".")[0] not in roots)


def _surroundings(objects: Iterable[Any], modules: Mapping[str, ModuleType]) -> tuple[dict[str, None], set[int]]:
    """Return the names of the loaded modules around the objects, and by ``id`` those and the classes around them.

    Through one of these a class body can reach an object without naming it: ``op = torch.nn.functional.relu``.
    """
    names: dict[str, None] = {}  # used as an ordered set
    gateways: set[int] = set()
    around = [(module, qualname.rpartition(".")[0]) for module, qualname in map(name_of, objects)]
    for module, qualname in dict.fromkeys(around):
        outer = find_named(module, qualname)
        if is_class(outer):
            gateways.add(id(outer))
        while module and module not in names:
            names[module] = None
            module = module.rpartition(".")[0]
    loaded = {name: None for name in names if name in modules}
    return loaded, gateways.union([id(modules[name]) for name in loaded])


def name_of(obj: Any) -> tuple[str, str]:
    """Return the module that ``obj`` is, or its ``__module__``, and its qualified name there; ``""`` for none."""
    if issubclass(type(obj), ModuleType):
        return (namespace_of(obj) or {}).get("__name__", ""), ""
    return qualified_name(obj)


class StaticSlot(ClassSlot):
    """A class attribute that holds a by-value reference in a form of its own, a ``staticmethod`` mostly.

    It is read and written as the reference; on revert it gets the identical first object back.
    """

    __slots__ = ("_forms",)

    def __init__(self, owner: type, key: str, name: str) -> None:
        super().__init__(owner, key, name)
        self._forms: list[tuple[Any, Any]] = []  # (raw, reference): the first value and the last one written

    @staticmethod
    def of(klass: type, key: str, name: str, raw: Any) -> Slot:
        """Return the slot for its value ``raw``: a plain one if the reference is the value itself."""
        if type(raw) is FunctionType or not callable(held_value(raw)):
            return ClassSlot(klass, key, name)
        slot = StaticSlot(klass, key, name)
        slot._forms.append((raw, held_value(raw)))
        return slot

    def read(self) -> Any:
        return self.value_of(super().read())

    def value_of(self, raw: Any) -> Any:
        """Return the reference that ``raw`` holds, something that the class has held."""
        return next((value for form, value in self._forms if form is raw), held_value(raw))

    def form(self, value: Any) -> Any:
        # The first form is kept for good: the identical staticmethod must be back after the revert. Of the others only
        # the last one can be read, so they do not pile up.
        first, original = self._forms[0]
        form = first if value is original else bind_like(first, value, in_class=True)
        self._forms[1:] = [(form, value)]
        return form

    def write(self, raw: Any) -> None:
        super().write(self.form(raw))


def names_read_by(source: Any) -> set[tuple[int, str]]:
    """Return the globals, as ``(id(namespace), name)``, that a replacement reads, itself or through its own package.

    A replacement may call the original under a name it imported; that name has to stay the original.

    Args:
        source: a function, class or other callable, or the target of one.
    """
    return {(id(space), name) for _, read in _reached(source) for space, name in read}


def own_names(source: Any, function: FunctionType) -> Iterator[Union[Slot, str]]:
    """Yield the places where a replacement keeps ``function``, to call it: slots of globals; others as texts.

    Args:
        source: as for :func:`names_read_by`; its free variables and default arguments are searched, too.
        function: the original.
    """
    source = resolve(source)
    if any(value is function for value in _given(source)):
        yield "an argument of a partial"
    for inner, read in _reached(source):
        if inner is function:
            continue
        closed = list(closed_over(inner))
        if any(value is function for value in closed):
            yield f"a free variable of {inner.__qualname__}"
        if any(given is function for value in closed for given in _given(value)):
            yield "an argument of a partial"
        if any(value is function for value in (*(inner.__defaults__ or ()), *(inner.__kwdefaults__ or {}).values())):
            yield f"a default argument of {inner.__qualname__}"
        for space, name in read:
            held = held_value(space.get(name))
            module = space.get("__name__")
            if means(held, function):
                owner = sys.modules.get(module) if type(module) is str else None
                known = owner is not None and namespace_of(owner) is space
                yield NamespaceSlot(owner, name, f"{module}:{name}") if known else f"{module}:{name}"
            elif is_class(held) and root_of(held) == root_of(source):
                for key, raw in list(class_namespace(held).items()):
                    if means(held_value(raw), function) and key != function.__name__:
                        yield StaticSlot.of(held, key, f"{module}:{name}.{key}", raw)
            elif id(function) in map(id, _content(held)):
                yield f"what {module}:{name} holds"


def _given(value: Any) -> Sequence[Any]:
    """Return the arguments of a ``functools.partial``; an empty sequence for anything else."""
    if not issubclass(type(value), functools.partial):
        return ()
    args, keywords = (functools.partial.__dict__[name].__get__(value) for name in ("args", "keywords"))
    return (*args, *keywords.values())


def means(value: Any, function: FunctionType) -> bool:
    """True if ``value`` is ``function``, or the copy of it that an earlier patch put under a kept name."""
    body = patched_body(function)
    is_copy = body is not None and type(value) is FunctionType and value.__code__ is body.original.__code__
    return value is function or is_copy


def _content(value: Any) -> Iterable[Any]:
    """Return the items of a collection or the attributes of an object; nothing of modules, classes and functions."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return list(value)
    if issubclass(kind, dict):
        return list(dict.values(value))
    if issubclass(kind, (ModuleType, type, FunctionType)):
        return ()
    return list((namespace_of(value) or {}).values())


def _reached(source: Any) -> Iterator[tuple[FunctionType, Sequence[tuple[Mapping[str, Any], str]]]]:
    """Yield the functions that a replacement reaches in its own package, each with the globals that it reads."""
    source = resolve(source)
    root: Any = ABSENT  # found when the first global is read: most wrappers read none
    seen: set[int] = set()
    todo = [*functions_of(source)] or [*functions_of(type(source))]
    todo += (inner for value in _given(source) for inner in functions_of(value))
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for content in closed_over(function):
            todo += (inner for value in (content, *_given(content)) for inner in functions_of(value))
        names = set(_code_names(function.__code__))
        read = []
        spaces: list[Mapping[str, Any]] = [function.__globals__]
        for space in spaces:
            for name in [name for name in names if name in space]:
                value = space[name]
                read.append((space, name))
                # Only the replacement's own package is followed: functions of other packages are called as everybody
                # calls them, and must reach the patch.
                root = root_of(source) if root is ABSENT else root
                if root_of(value) != root:
                    continue
                if issubclass(type(value), ModuleType):
                    inner_space = namespace_of(value) or {}
                    if not any(inner_space is other for other in spaces):
                        spaces.append(inner_space)
                else:
                    todo += functions_of(value)
        yield function, read


#: For types in C, the getter of the function inside, which an attribute of a subclass cannot hide.
_INNER: dict[type, Callable[[Any], Any]] = {
    staticmethod: staticmethod.__dict__["__func__"].__get__,
    classmethod: classmethod.__dict__["__func__"].__get__,
    MethodType: MethodType.__dict__["__func__"].__get__,
    functools.partial: functools.partial.__dict__["func"].__get__,
    property: property.__dict__["fget"].__get__,
}

_dict_offset: Callable[[type], int] = type.__dict__["__dictoffset__"].__get__


def root_of(value: Any) -> Optional[str]:
    """Return the top-level package of a module, or of a class's or function's module; ``None`` for other objects."""
    if issubclass(type(value), ModuleType):
        module = (namespace_of(value) or {}).get("__name__")
    elif is_class(value):
        module = class_namespace(value).get("__module__")
    else:
        module = next((function.__module__ for function in functions_of(value)), None)
    return module.partition(".")[0] if type(module) is str else None


def functions_of(value: Any) -> Iterator[FunctionType]:
    """The Python functions that run when ``value`` is called: itself, the one it wraps, the methods of a class."""
    kind = type(value)
    if kind is FunctionType:
        yield value
    elif issubclass(kind, functools.cached_property):
        yield from functions_of((namespace_of(value) or {}).get("func"))
    elif issubclass(kind, tuple(_INNER)):
        yield from functions_of(next(inner(value) for base, inner in _INNER.items() if issubclass(kind, base)))
    elif issubclass(kind, type):
        for raw in list(class_namespace(value).values()):
            if not is_class(raw):
                yield from functions_of(raw)


def _code_names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _code_names(constant)
