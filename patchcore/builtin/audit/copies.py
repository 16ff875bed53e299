"""Copies of namespaces: of each module and its classes, made when the body of the module has ended.

A later difference between a copy and its namespace is a write that came from outside of the body. Only code is kept
(functions, classes, modules, descriptors, other callables): data would stay in memory, and a new value is no patch.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Callable, NamedTuple

from patchcore.builtin.audit.owners import owner_of_module, replaces_python
from patchcore.objects.modules import (
    ABSENT,
    class_namespace,
    is_class,
    is_initializing,
    is_lazy,
    namespace_of,
    qualified_name,
)

__all__ = ["DATA", "OURS", "Body", "Copies", "Copy", "Difference", "body_of", "code_or_data"]


class _Data:
    def __repr__(self) -> str:
        return "<data>"


#: Stands for each value that is no code.
DATA: Any = _Data()

_CODE = frozenset(
    {
        *(FunctionType, BuiltinFunctionType, MethodType, MethodDescriptorType, WrapperDescriptorType),
        *(GetSetDescriptorType, staticmethod, classmethod, property, type, functools.partial),
    }
)
#: Packages that patchcore itself loads, and those that Python's ``site`` loads: the ``.pth`` file of setuptools.
OURS = frozenset(
    {"patchcore", "patchcore_startup", "pluggy", "packaging", "importlib_metadata", "zipp", "tomli", "_distutils_hack"}
)
#: The program, which runs while it is audited. In a child of multiprocessing it has two names (``spawn.py``).
MAIN = ("__main__", "__mp_main__")
#: Frequent types of data.
_PLAIN = frozenset({int, float, str, bytes, bool, tuple, list, dict, set, frozenset, type(None)})
#: How deep in classes other classes are looked for.
_DEPTH = 3


class Body(NamedTuple):
    """The parts of a function that a write of an attribute changes."""

    code: Any
    defaults: Any
    keyword_defaults: Any


class Copy(NamedTuple):
    """The code in a namespace when the body of its module ended.

    Args:
        owner: the module or class.
        module: name of the module that owns it.
        path: the qualified name of the class; empty for a module.
        names: by name, the code, or :data:`DATA`.
        bodies: of the functions that are defined there, by name.
    """

    owner: Any
    module: str
    path: str
    names: Mapping[str, Any]
    bodies: Mapping[str, Body]

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The namespace as it is now."""
        if is_class(self.owner):
            return class_namespace(self.owner)
        return namespace_of(self.owner) or {}


class Difference(NamedTuple):
    """A name whose value is no longer the one of the copy.

    Args:
        kind: ``name``, ``body`` of a function, or ``module`` for an entry of ``sys.modules``.
        owner: the module or class; the module of the copy for an entry of ``sys.modules``.
        module, path: see :class:`Copy`.
        name: that differs.
        before, now: code, :data:`DATA`, or ``ABSENT``; a :class:`Body` each for a body.
    """

    kind: str
    owner: Any
    module: str
    path: str
    name: str
    before: Any
    now: Any

    @property
    def target(self) -> str:
        """The name of the place, ``package.module:Class.attribute``."""
        if self.kind == "module":
            return f"sys.modules[{self.name!r}]"
        return f"{self.module}:{self.path}{'.' if self.path else ''}{self.name}"

    @property
    def place(self) -> tuple[int, str, str]:
        """The key of the place."""
        return id(self.owner), self.kind, self.name


def code_or_data(value: Any) -> Any:
    """Return ``value`` if it is code, else :data:`DATA`."""
    kind = type(value)
    if kind in _CODE or issubclass(kind, (type, ModuleType, property, functools.cached_property)):
        return value
    return value if callable(value) and kind.__module__ != "typing" else DATA


def body_of(function: Any) -> Body:
    """Return what a write to ``__code__`` or ``__defaults__`` of a Python function changes."""
    return Body(function.__code__, function.__defaults__, function.__kwdefaults__)


class Copies:
    """The copies of this process."""

    def __init__(self, added: Callable[[Any, Any], None] = lambda owner, namespace: None) -> None:
        self._added = added
        self._copies: dict[int, Copy] = {}  # by id of the owner, which the copy keeps alive
        self.modules: dict[str, Any] = {}  # the entries of sys.modules when the bodies ended
        self._taken = 0

    def __len__(self) -> int:
        return len(self._copies)

    def __contains__(self, owner: object) -> bool:
        return id(owner) in self._copies

    def __iter__(self) -> Iterator[Copy]:
        return iter(list(self._copies.values()))

    def take(self, name: str, module: Any) -> bool:
        """Copy the namespaces of module ``name`` and its classes, once; return true if they are copied now."""
        if id(module) in self._copies or name in MAIN or is_lazy(module):
            return False
        space = namespace_of(module) if issubclass(type(module), ModuleType) else None
        if space is None:
            return False
        self.modules[name] = module
        self._add(module, name, "", space)
        for klass, path in _classes(space, name, "", _DEPTH):
            if id(klass) not in self._copies:
                self._add(klass, name, path, class_namespace(klass))
        return True

    def take_new(self) -> list[tuple[str, Any]]:
        """Copy modules that no follower has seen, as other code executed them; return those that were copied.

        ``sys.modules`` keeps the order in which modules came, so only its end is looked at.
        """
        names = list(sys.modules)
        if self._taken > len(names):  # some were removed
            self._taken = 0
        new = names[self._taken :]
        self._taken = len(names)
        found = []
        for name in new:
            module = sys.modules.get(name)
            # The body of a module that is being executed has not ended; one without a loader is made by other code,
            # and one in the place of another is a patch.
            if (
                name in self.modules
                or name.partition(".")[0] in OURS
                or is_initializing(module)
                or not _has_loader(module)
            ):
                continue
            if self.take(name, module):
                found.append((name, module))
        return found

    def take_again(self) -> None:
        """Copy each module whose own file was executed again, past Python's import system: that is no patch.

        transformers does so with its own package (5.24, ``direct_transformers_import`` of ``utils/import_utils.py``).
        """
        for name, before in list(self.modules.items()):
            now = sys.modules.get(name)
            if now is not before and now is not None and name not in MAIN and _of_same_file(name, before, now):
                self.take(name, now)

    def differences(self, *, bodies: bool = True) -> Iterator[Difference]:
        """Yield each name that differs from its copy now.

        Args:
            bodies: also compare bodies of functions. An audit hook sees writes to these.
        """
        for copy in self:
            space = copy.namespace
            if bodies:
                for name in copy.bodies:
                    if space.get(name, ABSENT) is copy.names[name]:
                        yield from _difference_of_body(copy, name, copy.names[name])
            for name, before in copy.names.items():
                now = space.get(name, ABSENT)
                if now is before or (before is DATA and (type(now) in _PLAIN or code_or_data(now) is DATA)):
                    continue
                now = now if now is ABSENT else code_or_data(now)
                if not _same(before, now):
                    yield Difference("name", copy.owner, copy.module, copy.path, name, before, now)
            if len(space) == len(copy.names) and copy.names.keys() == space.keys():
                continue
            for name in [name for name in list(space) if name not in copy.names]:
                now = code_or_data(space.get(name, ABSENT))
                if isinstance(name, str) and now is not DATA and now is not ABSENT:
                    yield Difference("name", copy.owner, copy.module, copy.path, name, ABSENT, now)
        yield from self._differences_of_modules()

    def _differences_of_modules(self) -> Iterator[Difference]:
        for name, before in list(self.modules.items()):
            now = sys.modules.get(name)
            if now is not None and now is not before and name not in MAIN:
                yield Difference("module", before, name, "", name, before, now)
        for name, now in list(sys.modules.items()):
            if now is None or name in MAIN:
                continue
            if name not in self.modules or replaces_python(name, now):
                yield Difference("module", now, name, "", name, ABSENT, now)

    def _add(self, owner: Any, module: str, path: str, space: Mapping[str, Any]) -> None:
        # A list first: another thread may write to the namespace in the middle.
        names = {name: code_or_data(value) for name, value in list(space.items())}
        bodies = {}
        for name, value in names.items():
            function = value.__func__ if type(value) in (staticmethod, classmethod) else value
            if type(function) is FunctionType and function.__module__ == module:
                bodies[name] = body_of(function)
        self._copies[id(owner)] = Copy(owner, module, path, names, bodies)
        self._added(owner, space)


def _difference_of_body(copy: Copy, name: str, value: Any) -> Iterator[Difference]:
    function = value.__func__ if type(value) in (staticmethod, classmethod) else value
    code, defaults, keyword_defaults = before = copy.bodies[name]
    if (
        function.__code__ is not code
        or function.__defaults__ is not defaults
        or function.__kwdefaults__ is not keyword_defaults
    ):
        yield Difference("body", copy.owner, copy.module, copy.path, name, before, body_of(function))


def _classes(space: Mapping[str, Any], module: str, path: str, depth: int) -> Iterator[tuple[type, str]]:
    """Yield the classes that are defined in a namespace, with their qualified names."""
    for name, value in list(space.items()):
        if not isinstance(name, str) or not is_class(value):
            continue
        if qualified_name(value)[0] != module:
            continue
        place = f"{path}.{name}" if path else name
        yield value, place
        if depth:
            yield from _classes(class_namespace(value), module, place, depth - 1)


def _of_same_file(name: str, before: Any, now: Any) -> bool:
    """Return whether two modules are of one file, and the type of the second one is Python's or of its own package."""
    if not (_has_loader(before) and _has_loader(now)):
        return False
    files = [module.__dict__["__spec__"].origin for module in (before, now)]
    own = type(now) is ModuleType or owner_of_module(type(now).__module__) == owner_of_module(name)
    return own and files[0] is not None and files[0] == files[1]


def _has_loader(module: Any) -> bool:
    spec = (namespace_of(module) or {}).get("__spec__") if issubclass(type(module), ModuleType) else None
    return getattr(spec, "loader", None) is not None


def _same(one: Any, other: Any) -> bool:
    """True if two values are one, or bound methods that are made anew at each access and are equal."""
    if one is other:
        return True
    if type(one) is type(other) and type(one) in (MethodType, BuiltinFunctionType):
        return bool(one.__self__ is other.__self__ and one.__name__ == other.__name__)
    return False
