"""Finds and names every object that still holds a replaced object: for reports, never while patches are applied.

The search starts at the replaced object and gets its referrers from the garbage collector, then their referrers, and so
on, until it reaches a name: a module's global, a function, a class, a local variable of a running function. It reads
memory only: it calls no method, property, ``__hash__`` or ``__eq__`` of any object that it meets.

Holders that do no harm are not reported: objects of patchcore or of the replacement, parts of the object itself (the
methods of a class), caches of the interpreter, and garbage.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import _signal  # type: ignore[import-not-found]
import collections
import functools
import gc
import signal
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import Context
from types import FunctionType, MemberDescriptorType
from typing import Any, Callable, NamedTuple, Optional

from patchcore.objects.modules import class_namespace, is_class, loaded_modules, mro, namespace_of, qualified_name
from patchcore.stdlib import OWN

__all__ = ["Unreachable", "find_unreachable"]

#: How far from the object a name is looked for, and how many objects are followed at most.
_MOST_STEPS = 24
_MOST_FOLLOWED = 4000
#: How many holders of one object are named of each type; the others are counted.
_MOST_NAMED = 25


class Unreachable(NamedTuple):
    """A reference to an original that cannot be rebound: the kind of its holder, and the place."""

    kind: str
    where: str


def find_unreachable(originals: Iterable[Any], ours: Iterable[Any] = ()) -> list[tuple[Any, Unreachable]]:
    """Return the places that hold one of ``originals``, with that object, sorted by place.

    Args:
        originals: objects that were replaced.
        ours: objects whose holding them is known: replacements, and the wrappers around originals.
    """
    wanted = _Objects((id(obj), obj) for obj in originals)
    if not wanted:
        return []
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()  # the collector does not list the objects that it ignores, those of a run among them
    try:
        search = _Search(wanted, set(map(id, ours)))
        search.run()
    finally:
        if was_frozen:  # by the program, before it forks for example
            gc.freeze()
    found = {(id(held), place): (held, place) for held, place in search.places()}
    return sorted(found.values(), key=lambda pair: pair[1])


class _Objects(dict):  # type: ignore[type-arg]
    """Objects by ``id``. It has a type of its own, by which the search recognises its own memory."""


class _List(list):  # type: ignore[type-arg]
    """Objects, likewise."""


class _Search:
    """One search.

    Args:
        wanted: the objects whose holders are searched for.
        ours: the objects, by ``id``, that are not followed because they belong to patchcore.
    """

    def __init__(self, wanted: _Objects, ours: set[int]) -> None:
        self._wanted = wanted
        self._nodes = _Objects(wanted)
        self._held: dict[int, list[int]] = {}  # by holder: the nodes that it holds
        self._leads: dict[int, set[int]] = {key: {key} for key in wanted}  # by node: the wanted that it leads to
        self._via: dict[int, int] = {}  # the holder through which a node has its name
        self._direct: dict[tuple[int, int], None] = {}  # (holder, wanted)
        self._more: collections.Counter[tuple[int, str]] = collections.Counter()
        names = {name: namespace_of(module) for name, module in loaded_modules().items() if not _is_patchcore(name)}
        self._modules: dict[int, str] = {}
        for name, space in names.items():
            if space is not None:
                self._modules.setdefault(id(space), name)
        self._ignored = ours
        self._own_types: dict[int, bool] = {}
        self._locals = _Locals()
        self._surplus: dict[int, int] = {}
        self._static_types = _static_types()
        self._ignored |= self._locals.ours - self._modules.keys()
        self._registrations: Optional[dict[int, tuple[type, set[int]]]] = None

    def run(self) -> None:
        """Find the holders, and a way from a name to each."""
        frontier = list(self._wanted)
        followed = 0
        for step in range(_MOST_STEPS):
            reached: dict[int, None] = {}
            self._expand(frontier, reached, weak=not step)
            frontier = [key for key in reached if key not in self._via][: _MOST_FOLLOWED - followed]
            followed += len(frontier)
            if not frontier:
                break
        for key in [key for key in self._nodes if key in self._locals.names]:
            self._name(key, _LOCAL)
        self._find_what_is_held_invisibly()

    def places(self) -> Iterator[tuple[Any, Unreachable]]:
        """Yield each wanted object with a place that holds it."""
        for key, wanted in self._wanted.items():
            for name in self._locals.names.get(key, ()):
                yield wanted, Unreachable("local variable", name)
            for name in (name for name, handler in _signals() if handler is wanted):
                yield wanted, Unreachable("signal handler", name)
            if self._surplus.get(key, 0) > 0:
                yield wanted, Unreachable("reference", _UNSEEN)
        named: collections.Counter[tuple[int, str]] = collections.Counter()
        for holder, key in self._direct:
            if holder not in self._via and not self._is_anchor(self._nodes[holder]):
                continue
            wanted = self._wanted[key]
            group = (key, type_name(self._nodes[holder]))
            if named[group] == _MOST_NAMED:
                self._more[group] += 1
                continue
            places = list(self._named(holder, wanted))
            named[group] += bool(places)
            yield from ((wanted, place) for place in places)
        for (key, kind), count in self._more.items():
            yield self._wanted[key], Unreachable(f"{count} more", f"of type {kind}")

    def _expand(self, frontier: list[int], reached: dict[int, None], *, weak: bool) -> None:
        """Enter the referrers of the nodes of ``frontier``; add those to follow further to ``reached``."""
        for start in range(0, len(frontier), 200):
            part = _List(self._nodes[key] for key in frontier[start : start + 200])
            found = _List(_referrers(part))
            if weak:
                found += (ref for obj in part for ref in weakref.getweakrefs(obj))
            found += self._untracked(part)
            chunk = set(map(id, part))
            for parent in found:
                children = [key for key in map(id, gc.get_referents(parent)) if key in chunk]
                if weak and issubclass(type(parent), _WEAK):
                    refs = ((key, weakref.getweakrefs(self._nodes[key])) for key in chunk)
                    children += [key for key, known in refs if any(ref is parent for ref in known)]
                if self._add(parent, list(dict.fromkeys(children))):
                    reached[id(parent)] = None

    def _untracked(self, objects: _List) -> Iterable[Any]:
        """Return the dicts and tuples around ``objects`` that the garbage collector does not list.

        It lists no dict or tuple whose contents cannot be part of a cycle, such as a class written in C.
        """
        wanted = {id(obj) for obj in objects if not gc.is_tracked(obj)}
        found = _List()
        if not wanted:
            return found
        seen: set[int] = set()
        for tracked in gc.get_objects():
            todo = [tracked]
            for parent in todo:
                for child in gc.get_referents(parent):
                    if type(child) in (dict, tuple) and not gc.is_tracked(child) and id(child) not in seen:
                        seen.add(id(child))
                        todo.append(child)
                        if not wanted.isdisjoint(map(id, gc.get_referents(child))):
                            found.append(child)
        return found

    def _add(self, parent: Any, children: list[int]) -> bool:
        """Enter a holder; return True if its own holders are to be looked for."""
        key = id(parent)
        if key in self._ignored or self._is_ours(parent):
            return False
        children = [
            child
            for child in children
            if self._leads[child] != {key} and not self._is_internal(parent, self._nodes[child], child)
        ]
        if not children:
            return False
        new = key not in self._nodes
        self._nodes[key] = parent
        leads = self._leads.setdefault(key, set())
        for child in children:
            leads |= self._leads[child]
            self._held.setdefault(key, []).append(child)
            if child in self._wanted:
                self._direct[key, child] = None
        if key in self._via or self._is_anchor(parent):
            for child in children:
                self._name(child, key)
            return False
        return new

    def _name(self, key: int, via: int) -> None:
        """Enter that a node has its name through holder ``via``, and the objects that it holds through the node."""
        todo = [(key, via)]
        for node, through in todo:
            known = self._via.get(node)
            if node in self._wanted:
                continue
            if known is None:
                todo += ((child, node) for child in self._held.get(node, ()))
            elif through not in self._modules or self._modules.get(known, "") <= self._modules[through]:
                continue
            self._via[node] = through

    def _find_what_is_held_invisibly(self) -> None:
        """Find objects with references that the garbage collector does not list.

        C code may hold such references, and a running function holds the values that it is about to use. An object
        without a name and without such a reference is garbage, or belongs to patchcore.
        """
        strong = self._held_strongly()
        named = [key for key in strong if key in self._via or self._is_anchor(self._nodes[key])]
        left = strong.difference(named)
        left -= {key for key in left if issubclass(type(self._nodes[key]), (*_WEAK, types.FrameType))}
        functions = [key for key, obj in self._wanted.items() if not issubclass(type(obj), (type, types.ModuleType))]
        if not left and not functions:
            return
        probe = object.__new__(_Probe)
        probe_key = id(probe)
        nodes = _Objects({probe_key: probe, **{key: self._nodes[key] for key in (*left, *functions)}})
        del probe
        visible = self._visible_references(nodes)
        surplus = {key: sys.getrefcount(nodes[key]) - visible[key] for key in nodes}
        for key in left:
            if surplus[key] > surplus[probe_key]:
                self._name(key, _INVISIBLE)
        for key in functions:
            known = self._locals.counts[key] + sum(handler is self._nodes[key] for _, handler in _signals())
            self._surplus[key] = surplus[key] - surplus[probe_key] - known

    def _visible_references(self, nodes: _Objects) -> collections.Counter[int]:
        """Return how many references to each of ``nodes`` the garbage collector sees."""
        visible: collections.Counter[int] = collections.Counter()
        keys = [*nodes]
        for start in range(0, len(keys), 200):
            part = _List(nodes[key] for key in keys[start : start + 200])
            chunk = set(keys[start : start + 200])
            for parent in _referrers(part):
                visible.update(key for key in map(id, gc.get_referents(parent)) if key in chunk)
        return visible

    def _held_strongly(self) -> set[int]:
        """Return the nodes that lead to something wanted by more than weak references."""
        holders: dict[int, list[int]] = {}
        for parent, children in self._held.items():
            for child in children:
                holders.setdefault(child, []).append(parent)
        found: set[int] = set()
        todo = [holder for holder, _ in self._direct if not issubclass(type(self._nodes[holder]), _WEAK)]
        for key in todo:
            if key not in found:
                found.add(key)
                todo += holders.get(key, ())
        return found

    # --- which referrers are followed ---------------------------------------------------------------------------------

    def _is_anchor(self, node: Any) -> bool:
        """True if a node has a name of its own."""
        if id(node) in self._modules or id(node) in self._wanted or type(node) is Context:
            return True
        if type(node) is dict and id(node) in self._static_types:
            return True
        return _place(node, certain=True) != ""

    def _is_ours(self, node: Any) -> bool:
        """True if a node belongs to patchcore."""
        if type(node) is FunctionType:
            return _is_patchcore(node.__globals__.get("__name__"))
        if is_class(node) and _is_patchcore(class_namespace(node).get("__module__")):
            return True
        kind = type(node)
        known = self._own_types.get(id(kind))
        if known is None:
            known = any(_is_patchcore(class_namespace(klass).get("__module__")) for klass in mro(kind))
            self._own_types[id(kind)] = known
        return known

    def _is_internal(self, parent: Any, child: Any, key: int) -> bool:
        """True if ``parent`` holds ``child`` in a way that has no effect on the program."""
        kind = type(parent)
        if kind is types.FrameType:
            # the variables of a running frame are read elsewhere; another frame belongs to a generator, or is dead
            return type(child) is types.FrameType or id(parent) in self._locals.frames
        if type(child) is types.FrameType:
            return not issubclass(kind, _GENERATORS)
        if kind is types.TracebackType:
            return True
        if kind is tuple and is_class(child):
            return bool(parent) and is_class(parent[0]) and mro(parent[0]) is parent
        if is_class(child) and kind in _DESCRIPTORS:
            return True
        if kind is FunctionType and len(self._leads[key]) == 1:
            return _is_method_of(parent, self._wanted[next(iter(self._leads[key]))])
        if qualified_name(kind) == ("_abc", "_abc_data"):
            return not self._is_registry(parent, child)
        if kind is _CACHE:
            cached = (namespace_of(parent) or {}).get("__wrapped__")
            if type(cached) is FunctionType and cached.__globals__.get("__name__") in _CACHING:
                return True
            return type(child) is tuple and id(child) not in _results(parent)
        return False

    def _is_registry(self, data: Any, entries: Any) -> bool:
        """True if ``entries`` are the registered classes of an abstract base class, and not its cache of checks."""
        if self._registrations is None:
            self._registrations = {}
            for klass in gc.get_objects():
                if is_class(klass) and "_abc_impl" in class_namespace(klass):
                    registered = _abc._get_dump(klass)[0]
                    self._registrations[id(class_namespace(klass)["_abc_impl"])] = klass, set(map(id, registered))
        known = self._registrations.get(id(data))
        return known is not None and type(entries) is set and bool(entries) and set(map(id, entries)) == known[1]

    # --- names --------------------------------------------------------------------------------------------------------

    def _named(self, holder: int, wanted: Any) -> Iterator[Unreachable]:
        """Return the places in ``holder`` that hold ``wanted``."""
        path = _List([wanted])
        key: Optional[int] = holder
        while key is not None and key >= 0:
            path.append(self._nodes[key])
            key = self._via.get(key)
        if any(node is wanted for node in path[1:]):
            return
        path.reverse()
        kind, where, at, i = "", "", "", 0
        top = path[0]
        if id(top) in self._modules:
            where = f"{self._modules[id(top)]}:"
        elif id(top) in self._static_types:
            klass = self._static_types[id(top)]
            if type(wanted) in _SOURCE_OF_C and wanted.__objclass__ is klass:  # where it is defined
                return
            path.insert(0, klass)
        elif key == _LOCAL:
            where = self._locals.names[id(top)][0]
        elif key == _INVISIBLE:
            where, at = f"<{type_name(top)}>", f", {_UNSEEN}"
        while i < len(path) - 1:
            node, below = path[i], path[i + 1 :]
            place = _place(node)
            if place:
                outer = "" if i == 0 or _place(node, certain=True) else where
                where, at = place, f", at {outer}" if outer and outer != place else at
            skipped, parts = _step(node, below, top_of_module=i == 0 and id(node) in self._modules)
            if skipped + 1 == len(below):
                for part in parts:
                    if part.kind in _INTERNAL_PARTS:
                        return
                    yield Unreachable(part.kind or kind or type_name(node), where + part.direct + at)
                return
            kind, where, i = parts[0].kind or kind, where + parts[0].suffix, i + 1 + skipped


def _static_types() -> dict[int, type]:
    """Return the types that the garbage collector does not know, by the ``id`` of the dict that each has."""
    found: dict[int, type] = {}
    seen: set[int] = set()
    todo = [object]
    for klass in todo:
        if id(klass) not in seen:
            seen.add(id(klass))
            todo += type.__subclasses__(klass)
            if not gc.is_tracked(klass):
                found.update((id(space), klass) for space in gc.get_referents(class_namespace(klass)))
    return found


def _referrers(objects: _List) -> list[Any]:
    """Return the referrers of ``objects``, without the list ``objects`` itself."""
    arguments = tuple(objects)  # Python 3.13 lists the arguments of the call
    return [found for found in gc.get_referrers(*arguments) if found is not arguments and found is not objects]


class _Probe:
    """An object with no references but those of the search."""


class _Locals:
    """The local variables of all running functions, in every thread."""

    def __init__(self) -> None:
        self.names: dict[int, list[str]] = {}  # by id of the value
        self.ours: set[int] = set()  # the containers that patchcore itself has in variables
        self.frames: set[int] = set()
        self.counts: collections.Counter[int] = collections.Counter()  # references that the collector does not see
        for top in list(sys._current_frames().values()):
            frame: Any = top
            while frame is not None:
                self._enter(frame)
                frame = frame.f_back
        del top, frame

    def _enter(self, frame: Any) -> None:
        self.frames.add(id(frame))
        code = frame.f_code
        if not code.co_flags & _CO_OPTIMIZED:
            return  # the body of a module or class: its variables are in a namespace
        ours = _is_patchcore(frame.f_globals.get("__name__"))
        if sys.version_info >= (3, 13) and not ours:
            return  # reading the variables of a running frame can crash CPython 3.13.0
        place = f"{frame.f_globals.get('__name__')}:{getattr(code, 'co_qualname', code.co_name)}"
        place += f" ({code.co_filename}:{code.co_firstlineno})"
        snapshot, value = frame.f_locals, None
        if sys.version_info < (3, 13):  # the frame keeps it
            self.ours.add(id(snapshot))
        unseen = not gc.is_tracked(frame)
        for name, value in list(snapshot.items()):
            if unseen and name not in code.co_cellvars and name not in code.co_freevars:
                self.counts[id(value)] += 1
            if not ours:
                self.names.setdefault(id(value), []).append(f"{place}, {name}")
            elif type(value) in _OWN_CONTAINERS:
                self.ours.add(id(value))
        del value
        if sys.version_info < (3, 13) and sys.getrefcount(snapshot) <= 3:
            snapshot.clear()  # or it would keep the present values of the variables alive


class _Part(NamedTuple):
    """One object that another one holds, and the way to it."""

    kind: str  #: of the holder, for reports; empty if the holder's own holder is more telling
    value: Any
    suffix: str  #: the text that leads from the holder to it, ``.name`` or ``[0]``
    direct: str  #: the same text if the value is the object that is searched for


def _step(node: Any, below: Sequence[Any], *, top_of_module: bool) -> tuple[int, list[_Part]]:
    """Return how many of ``below`` are inside ``node`` (a ``__dict__``, a cell), and its parts with the next one."""
    parts = list(_module_parts(node) if top_of_module else _parts(node, below))
    for skipped, inner in enumerate(below[:5]):
        found = [part for part in parts if part.value is inner]
        if found:
            return skipped, found
    kind = "" if type(node) is types.FrameType else type_name(node)
    return 0, [_Part(kind, below[0], "", "")]


def _part(kind: str, value: Any, suffix: str, direct: Optional[str] = None) -> _Part:
    return _Part(kind, value, suffix, suffix if direct is None else direct)


def _module_parts(space: Mapping[Any, Any]) -> Iterator[_Part]:
    for key, value in list(space.items()):
        yield _part("name", value, key if type(key) is str else f"[{text_of(key)}]")


def _parts(node: Any, below: Sequence[Any]) -> Iterator[_Part]:
    """Yield the objects that ``node`` holds in a way that a report can name."""
    kind, name = type(node), type_name(node)
    if kind is FunctionType:
        yield from _function_parts(node)
    elif issubclass(kind, type):
        yield from _class_parts(node)
    elif kind is Context:
        yield from (_part("context variable", value, variable.name) for variable, value in Context.items(node))
    elif issubclass(kind, dict):
        for key, value in list(dict.items(node)):
            yield _part(name, value, f"[{text_of(key)}]")
        yield from (_part(f"{name} key", key, ", a key", "") for key in list(dict.keys(node)))
    elif issubclass(kind, (list, tuple, collections.deque)):
        base: Any = next(base for base in (list, tuple, collections.deque) if issubclass(kind, base))
        yield from (_part(name, value, f"[{index}]") for index, value in enumerate(list(base.__iter__(node))))
    elif issubclass(kind, (set, frozenset)):
        base = set if issubclass(kind, set) else frozenset
        yield from (_part(name, value, "") for value in list(base.__iter__(node)))
    elif issubclass(kind, _WEAK):
        is_proxy = issubclass(kind, weakref.ProxyTypes)
        if is_proxy or weakref.ref.__call__(node) is below[0]:
            yield _part("weak reference", below[0], "")
    elif kind is types.CellType:
        yield from (_part("cell", value, "") for value in below[:1])
    elif kind is types.BuiltinFunctionType:
        yield _part("method", node.__self__, ".__self__")
    elif issubclass(kind, threading.local):
        for inner in _dicts_in(gc.get_referents(node)):
            for key, value in list(inner.items()):
                yield _part("thread-local attribute", value, f".{text_of(key)[1:-1]}")
    is_python = "." in name
    label = "module attribute" if issubclass(kind, types.ModuleType) else "instance attribute" if is_python else name
    if kind is not FunctionType and not issubclass(kind, type):
        for key, value in list((namespace_of(node) or {}).items()):
            yield _part(label, value, f".{key}" if type(key) is str else f".__dict__[{text_of(key)}]")
    for klass in mro(kind) if not issubclass(kind, type) and kind is not FunctionType else ():
        for key, member in list(class_namespace(klass).items()):
            if type(member) is MemberDescriptorType and type(key) is str and (klass, key) not in _SAID_ELSEWHERE:
                try:
                    yield _part(label, member.__get__(node, kind), f".{key}")
                except AttributeError:  # it holds nothing
                    continue
    if not issubclass(kind, type):
        yield _part("instance", kind, "")
    else:
        yield _part("class", kind, "")


def _function_parts(function: FunctionType) -> Iterator[_Part]:
    code = function.__code__
    source = f" ({code.co_filename}:{code.co_firstlineno})"
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            kind = "cache" if (name, function.__module__) == ("dispatch_cache", "functools") else "closure"
            yield _part(kind, cell.cell_contents, f"{source}, closure {name}", source)
        except ValueError:  # not filled yet
            continue
    defaults = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
    for name, value in (*zip(names, defaults), *(function.__kwdefaults__ or {}).items()):
        yield _part("default argument", value, f"{source}, default {name}", source)
    if sys.version_info < (3, 14):
        for key, value in list(function.__annotations__.items()):
            yield _part("annotation", value, f"{source}, annotation {text_of(key)}", source)
    for key, value in list((namespace_of(function) or {}).items()):
        yield _part("function attribute", value, f".{key}" if type(key) is str else f".__dict__[{text_of(key)}]")
    for key, value in list(function.__globals__.items()):
        yield _part("global", value, f"{source}, global {text_of(key)}")


def _class_parts(klass: type) -> Iterator[_Part]:
    if "_abc_impl" in class_namespace(klass):
        yield from (_part("class", ref, ", registered") for ref in _abc._get_dump(klass)[0])
    for key, value in list(class_namespace(klass).items()):
        if key != "_abc_impl":
            yield _part("class attribute", value, f".{key}" if type(key) is str else f".__dict__[{text_of(key)}]")
    yield from (_part("subclass", base, "") for base in type.__dict__["__bases__"].__get__(klass))


def _place(node: Any, *, certain: bool = False) -> str:
    """Return ``module:qualname`` of a function or class, ``""`` for anything else.

    Args:
        node: any object.
        certain: only where that name leads to it.
    """
    if type(node) is not FunctionType and not is_class(node):
        return ""
    module, qualname = qualified_name(node)
    if not certain:
        return f"{module}:{qualname}" if qualname else f"<{_class_name(node) if is_class(node) else 'function'}>"
    value: Any = sys.modules.get(module)
    for name in qualname.split("."):
        space = class_namespace(value) if is_class(value) else namespace_of(value) or {}
        value = space.get(name)
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        elif type(value) is property and value.fget is node:
            value = node
    return f"{module}:{qualname}" if value is node else ""


def _is_method_of(function: FunctionType, klass: Any) -> bool:
    if not is_class(klass):
        return False
    module, qualname = qualified_name(klass)
    own_module, own_name = qualified_name(function)
    return module == own_module and own_name.startswith(f"{qualname}.")


def _dicts_in(objects: Iterable[Any]) -> Iterator[dict[Any, Any]]:
    """Yield the dicts in dicts in ``objects``: those of a thread local have the values of one thread each."""
    for held in [held for held in objects if type(held) is dict]:
        yield from (value for value in dict.values(held) if type(value) is dict)


def _signals() -> Iterator[tuple[str, Any]]:
    """Return the handlers of signals, which C code holds."""
    for name, number in list(namespace_of(signal).items()):  # type: ignore[union-attr]
        if name.startswith("SIG") and not name.startswith("SIG_"):
            yield name, _signal.getsignal(number)


def _results(cache: Any) -> set[int]:
    """Return the ``id`` of each value in the dicts of an ``lru_cache``: its results, which its next calls return."""
    found: set[int] = set()
    for held in gc.get_referents(cache):
        if type(held) is dict and held is not namespace_of(cache):
            found.update(map(id, dict.values(held)))
    return found


def _is_patchcore(module: Any) -> bool:
    return type(module) is str and module.partition(".")[0] in OWN


def type_name(node: Any) -> str:
    """Return the name of an object's type, with the module of one that is not built in."""
    module, qualname = qualified_name(type(node))
    if not qualname:  # the __module__ of the class is not a text
        return f"?.{_class_name(type(node))}"
    return qualname if module in _PLAIN_MODULES else f"{module}.{qualname}"


def text_of(key: Any) -> str:
    """Return a key as text; no method is called unless its class is one of Python's own."""
    if type(key) in (str, int, float, bool, bytes, complex, type(None)):
        return repr(key)
    if type(key) is tuple:
        return f"({', '.join(map(text_of, key))}{',' if len(key) == 1 else ''})"
    place = _place(key).replace("builtins:", "", 1)
    return place if place else f"<{type_name(key)}>"


#: Members that hold the same object as another one, or lead to a frame.
_SAID_ELSEWHERE = {
    (types.ModuleType, "__dict__"),
    (types.SimpleNamespace, "__dict__"),
    (staticmethod, "__wrapped__"),
    (classmethod, "__wrapped__"),
    (types.GeneratorType, "gi_frame"),
    (types.CoroutineType, "cr_frame"),
    (types.AsyncGeneratorType, "ag_frame"),
}
_SOURCE_OF_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
_class_name: Callable[[Any], str] = type.__dict__["__qualname__"].__get__
_LOCAL, _INVISIBLE = -1, -2
_UNSEEN = "held by C code or by a running call"
_CO_OPTIMIZED = 1
#: Modules of types that are shown by their own name alone.
_PLAIN_MODULES = {"builtins", "collections", "functools", "types", "itertools", "weakref", "_functools"}
_WEAK: tuple[type, ...] = (weakref.ReferenceType, *weakref.ProxyTypes)
_GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_DESCRIPTORS = {
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
}
_CACHE = type(functools.lru_cache(maxsize=1)(_is_patchcore))
#: Modules whose caches have the replaced object as a key: such an entry is never looked up again.
_CACHING = {"typing", "typing_extensions", "functools"}
_INTERNAL_PARTS = {"cache"}
_OWN_CONTAINERS = {list, dict, tuple, set, frozenset, collections.deque, type(iter([])), type(iter(()))}
