"""Private copies of the standard library, for patchcore to use while patches of it are in force.

While such a patch is in force, every name in patchcore's modules that leads into the standard library leads to a
private copy of it. The program sees no difference, and other threads neither. Without such a patch nothing is copied.

Most modules are copied as they are: the copy has a namespace of its own, and its functions read that. State such as
``os.environ`` or the table of loggers is shared with the program. The modules of :data:`EXECUTED_AGAIN` are executed a
second time, so that patches do not reach the methods of their classes either. Those of :data:`SHARED` are used as they
are.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Optional

from patchcore.builtin.stdlib.standard import is_standard
from patchcore.declare.target import Target
from patchcore.stdlib import LATER, OWN, take_from

__all__ = ["EXECUTED_AGAIN", "LIBRARY", "SHARED", "PrivateLibrary"]

#: Executed a second time: they keep nothing that the program must share, and classes of theirs do the work.
EXECUTED_AGAIN = frozenset({"difflib", "graphlib", "inspect", "json", "pathlib", "textwrap", "tomllib", "traceback"})

#: Used as they are: their content belongs to the interpreter, or patchcore and the program must share it.
SHARED = frozenset(
    {"__future__", "__main__", "_abc", "_collections_abc", "_frozen_importlib", "_frozen_importlib_external"}
    | {"abc", "builtins", "collections", "enum", "linecache", "sys", "types", "typing"}
)
_SHARED_SUBMODULES = ("importlib._bootstrap", "importlib._bootstrap_external")

#: The packages that patchcore calls while patches are in force; their modules get the copies, too.
_CALLED = ("packaging", "pluggy")

_GONE: Any = object()


class PrivateLibrary:
    """Private copies of modules of the standard library, in use as long as a patch needs them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._prepared: set[str] = set()  # packages of patchcore
        self._users: dict[str, None] = {}
        self._copies: Optional[_Copies] = None
        self._served: set[str] = set()  # modules whose names lead to copies now
        self._swapped: list[tuple[dict[str, Any], str, Any, Any]] = []  # namespace, name, earlier value, new value

    def prepare(self) -> None:
        """Import modules of patchcore and of the standard library that are imported late, so that they are copied."""
        new = set(_packages()) - self._prepared
        if not new:
            return
        self._prepared |= new
        import pkgutil

        for name in LATER.values():
            import_module(name)
        for package in sorted(new):
            for info in pkgutil.iter_modules(sys.modules[package].__path__):
                if not info.ispkg and not info.name.endswith(("__main__", "command", "probe")):
                    import_module(f"{package}.{info.name}")

    def enter(self, user: str, targets: Iterable[Target]) -> None:
        """Use private copies until :meth:`leave`; called with no lock held, as it may import modules.

        Args:
            user: the name of the patch that needs the copies.
            targets: the targets about to be patched, some of them in the standard library.
        """
        self.prepare()
        with self._lock:
            if self._copies is None:
                self._copies = _Copies()
            self._use(self._copies)
            self._users[user] = None
            for target in targets:
                if target.root == "builtins" and target.path:
                    self._hide(str(target.path[0]))

    @property
    def users(self) -> list[str]:
        """Who has entered and not left."""
        return list(self._users)

    def leave(self, user: str) -> None:
        """Undo :meth:`enter`; after the last user left, patchcore's modules use the program's library again."""
        if not self._users:
            return
        with self._lock:
            if self._users.pop(user, self) is None and not self._users:
                for space, name, before, now in reversed(self._swapped):
                    if space.get(name, _GONE) is now:
                        if before is _GONE:
                            del space[name]
                        else:
                            space[name] = before
                self._swapped.clear()
                self._served.clear()
                self._copies = None

    def module(self, name: str) -> ModuleType:
        """Return module ``name`` of the standard library as patchcore is to use it now."""
        copies = self._copies
        return import_module(name) if copies is None else copies.module(name)

    def _use(self, copies: _Copies) -> None:
        spaces = _own_namespaces()
        for module in spaces.keys() - self._served:
            space = spaces[module]
            for name, value in list(space.items()):
                copy = copies.of(value)
                if copy is not value and not name.startswith("__"):
                    self._put(space, name, copy)
        self._served.update(spaces)

    def _hide(self, name: str) -> None:
        """Put a builtin that is about to be patched in front of the patched one, as a global of patchcore's modules."""
        value = builtins.__dict__.get(name, _GONE)
        for space in (*_own_namespaces().values(), globals()):
            if value is not _GONE and name not in space:
                self._put(space, name, value)

    def _put(self, space: dict[str, Any], name: str, value: Any) -> None:
        self._swapped.append((space, name, space.get(name, _GONE), value))
        space[name] = value


class _Copies:
    """The copies, made at the first use, of modules that are not patched yet."""

    def __init__(self) -> None:
        self._made: dict[str, ModuleType] = {}
        # the copies of functions and modules look their builtins up here, __import__ included
        self._builtins = {**vars(builtins), "__import__": self._import}
        for module in [m for space in _own_namespaces().values() for m in space.values() if type(m) is ModuleType]:
            self.of(module)
        for name in LATER.values():
            self.module(name)

    def of(self, value: Any) -> Any:
        """Return the copy of a module, or of a function or class of one; ``value`` itself where there is none."""
        kind = type(value)
        if kind is ModuleType:
            return self.module(value.__name__) if _is_copied(value.__name__) else value
        home = value.__module__ if kind is FunctionType or issubclass(kind, type) else None
        if not isinstance(home, str) or home not in sys.modules or not _is_copied(home):
            return value
        if vars(sys.modules[home]).get(value.__name__) is not value:
            return value
        return getattr(self.module(home), value.__name__, value)

    def module(self, name: str) -> ModuleType:
        """Return the copy of module ``name``; the module itself if it is shared."""
        module = self._made.get(name)
        if module is not None:
            return module
        shared = import_module(name)
        if not _is_copied(name):
            return shared
        copy = self._made[name] = ModuleType(name, shared.__doc__)
        if name.partition(".")[0] not in EXECUTED_AGAIN or not self._execute(shared, copy):
            self._copy(shared, copy)
        parent, _, tail = name.rpartition(".")
        if parent:
            setattr(self.module(parent), tail, copy)
        return copy

    def _execute(self, shared: ModuleType, copy: ModuleType) -> bool:
        spec = shared.__spec__
        get_code = getattr(getattr(spec, "loader", None), "get_code", None)
        code = None if get_code is None else get_code(shared.__name__)
        if code is None:
            return False
        space = vars(copy)
        kept = ("__spec__", "__loader__", "__package__", "__path__", "__file__")
        space.update({key: vars(shared)[key] for key in kept if key in vars(shared)}, __builtins__=self._builtins)
        exec(code, space)
        return True

    def _copy(self, shared: ModuleType, copy: ModuleType) -> None:
        space = vars(copy)
        space.update(vars(shared), __builtins__=self._builtins)
        for key, value in list(space.items()):
            if type(value) is FunctionType and value.__globals__ is vars(shared):
                space[key] = _with_globals(value, space)
            elif type(value) is ModuleType and not key.startswith("__"):
                space[key] = self.of(value)

    def _import(
        self,
        name: str,
        globals: Optional[Mapping[str, Any]] = None,
        locals: Optional[Mapping[str, Any]] = None,
        fromlist: Iterable[str] = (),
        level: int = 0,
    ) -> ModuleType:
        """Carry out an ``import`` statement of a copy: see :func:`__import__`."""
        if level:
            package = str((globals or {})["__package__"])
            name = ".".join(filter(None, (package.rsplit(".", level - 1)[0], name)))
        module = self.module(name)
        if not fromlist:
            return self.module(name.partition(".")[0])
        for item in fromlist:
            if item != "*" and not hasattr(module, item):
                setattr(module, item, self.module(f"{name}.{item}"))
        return module


def _packages() -> list[str]:
    """Return the packages of patchcore that are loaded, those of built-in plugins among them."""
    loaded = sys.modules.copy().items()
    return [name for name, module in loaded if name.partition(".")[0] == "patchcore" and hasattr(module, "__path__")]


def _own_namespaces() -> dict[str, dict[str, Any]]:
    served = {*OWN, *_CALLED}
    return {n: vars(m) for n, m in sys.modules.copy().items() if n.partition(".")[0] in served and n != __name__}


def _is_copied(name: str) -> bool:
    root = name.partition(".")[0]
    return is_standard(root) and root not in SHARED and name not in _SHARED_SUBMODULES


def _with_globals(function: FunctionType, space: dict[str, Any]) -> FunctionType:
    copy = FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    vars(copy).update(vars(function))
    return copy


#: The one of this process.
LIBRARY = PrivateLibrary()
take_from(LIBRARY.module)
