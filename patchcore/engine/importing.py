"""Calls the engine when a watched module has been imported: after its body ran, before the importer continues.

That moment is the only one at which a patch is complete for all code: earlier the attributes do not exist, later other
modules may have taken the originals. An :class:`ImportWatch` is one finder, first on ``sys.meta_path`` while modules
are watched. It lets the other finders find a watched module and replaces its loader for the time of ``exec_module``
only; the module never sees it. Nothing is imported that the program would not import, and other modules cost one set
lookup.

The same finder returns modules of providers (:meth:`ImportWatch.provide`), opens windows around the body of a module
(:meth:`ImportWatch.surround`), calls followers around every body (:meth:`ImportWatch.follow`), and compiles the code of
a module with a compiler (:meth:`ImportWatch.compile_with`).

The finder does not see an import that began before it was installed. Such an import is joined through the lock that
importlib holds on its module (:meth:`ImportWatch.join`). So the order is always: watch a module, join its import, then
check whether it is loaded.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from threading import RLock, get_ident, local
from types import CodeType, ModuleType
from typing import Any, Callable, Optional, Protocol, TypeVar

from patchcore.engine.events import IMPORTED, tell
from patchcore.engine.unaccounted import lazy_modules_exist
from patchcore.objects.modules import ask_finders, executed_module, is_initializing, is_lazy, namespace_of
from patchcore.process import IMPORT_LOCKS, ModuleLock, import_lock, imported_elsewhere, importer_of

__all__ = [
    "AskOthers",
    "Compiler",
    "Follower",
    "ImportWatch",
    "Imported",
    "Joined",
    "Provider",
    "Window",
    "compiles_as_python_does",
    "how_missed",
    "loaded_here",
]

#: Called with the module's name, the module, and the modules that may hold its objects by value already.
Imported = Callable[[str, ModuleType, Mapping[str, ModuleType]], None]

#: Called with the name of a module whose import was joined, and the module, when the import ends.
Joined = Callable[[str, ModuleType], None]

#: Returns the spec with which the other finders would have a module imported, ``None`` for none.
AskOthers = Callable[[], Optional[ModuleSpec]]


class Provider(Protocol):
    """Finds a module, and the ones inside it, instead of the other finders."""

    def find_spec(self, name: str, ask_others: AskOthers) -> Optional[ModuleSpec]:
        """Return the spec of module ``name``, as a meta path finder does; imports nothing."""


class Window(Protocol):
    """Is open while the body of a module runs."""

    def open(self) -> None:
        """Called just before the body runs; an exception fails the import."""

    def close(self, *, finished: bool) -> None:
        """The body has run to its end, or it raised."""


class Follower(Protocol):
    """Is called around the body of every module that is imported; see :meth:`ImportWatch.follow`."""

    def begins(self, name: str) -> None:
        """Called in the importing thread just before the body of module ``name`` runs; must be quick and not raise."""

    def ended(self, name: str, module: ModuleType, *, finished: bool) -> None:
        """Called when the body has run to its end, or it raised (``finished`` is false); must not raise.

        Patches that wait for the module are applied after this call.
        """


class Compiler(Protocol):
    """Gives the code of modules that Python's own loader reads from a source file."""

    def concerns(self, name: str, file: str) -> bool:
        """True if :meth:`code_of` is to be called for module ``name``; called for each module that is found."""

    def code_of(self, name: str, loader: SourceFileLoader, *, alone: bool) -> tuple[CodeType, Mapping[str, Any]]:
        """Return the code to run as the body of module ``name``, and the names to put in the module before that.

        An exception fails the import.

        Args:
            name: of the module.
            loader: reads its source.
            alone: true if other code runs the body, which does not put the names in the module.
        """


_T = TypeVar("_T")


class ImportWatch:
    """A meta path finder that calls back when watched modules have been executed.

    Args:
        callback: called in the importing thread, inside the import; an exception fails that import.
        overtaken: called inside an import when other finders were in front of this one: they may have hidden imports
            of watched modules.
    """

    def __init__(self, callback: Imported, overtaken: Optional[Callable[[], None]] = None) -> None:
        self._callback = callback
        self._tell_overtaken = overtaken
        self.overtaken: list[str] = []  # the finders that were in front, for messages
        self._has_overtaken = False  # since the last call
        self._watched: dict[str, dict[int, object]] = {}  # for whom, by id
        self._roots: dict[str, dict[int, object]] = {}  # likewise
        self._providers: dict[str, tuple[Provider, ...]] = {}  # by module, the one that counts last
        self._windows: dict[str, tuple[Window, ...]] = {}
        self.followers: tuple[Follower, ...] = ()
        self.compiler: Optional[Compiler] = None
        self.lock = RLock()  # a signal handler may come back
        self._asking = local()

    def after_fork(self) -> None:
        """Make a new lock: a thread of the parent may have held the old one."""
        self.lock = RLock()

    def watch(self, name: str, owner: object) -> None:
        """Call back each time module ``name`` is executed, until :meth:`unwatch` was called for each owner."""
        with self.lock:
            self._watched.setdefault(name, {})[id(owner)] = owner
            self._take_place()

    def unwatch(self, name: str, owner: object) -> None:
        """Undo a :meth:`watch`, also an interrupted one; the finder leaves ``sys.meta_path`` with the last one."""
        with self.lock:
            owners = self._watched.get(name, {})
            owners.pop(id(owner), None)
            if not owners:
                self._watched.pop(name, None)
            self._take_place()

    def provide(self, name: str, provider: Provider) -> None:
        """Let ``provider`` find module ``name``, and all that is inside it, until :meth:`withdraw`."""
        with self.lock:
            self._providers = _with(self._providers, name, provider)
            self._take_place()

    def provides(self, name: str) -> bool:
        """Return whether a provider was given for module ``name`` itself."""
        return name in self._providers

    def withdraw(self, name: str, provider: Provider) -> None:
        """Undo :meth:`provide`."""
        with self.lock:
            self._providers = _without(self._providers, name, provider)
            self._take_place()

    def surround(self, name: str, window: Window) -> None:
        """Open ``window`` each time the body of module ``name`` is about to run, and close it then.

        It stays closed in an import that is under way already.
        """
        with self.lock:
            self._windows = _with(self._windows, name, window)
        self.watch(name, window)

    def leave(self, name: str, window: Window) -> None:
        """Undo :meth:`surround`."""
        with self.lock:
            self._windows = _without(self._windows, name, window)
        self.unwatch(name, window)

    def follow(self, follower: Follower) -> None:
        """Call ``follower`` around the body of every module that is imported from now on, until :meth:`unfollow`."""
        with self.lock:
            self.followers = (*self.followers, follower)
            self._take_place()

    def unfollow(self, follower: Follower) -> None:
        """Undo :meth:`follow`."""
        with self.lock:
            self.followers = tuple(other for other in self.followers if other is not follower)
            self._take_place()

    def is_watched(self, name: str) -> bool:
        """True if the callback is to be called when module ``name`` is executed."""
        return name in self._watched or any(name == root or name.startswith(f"{root}.") for root in self._roots)

    def compile_with(self, compiler: Optional[Compiler]) -> None:
        """Have ``compiler`` give the code of modules from now on, in the place of the one before; ``None`` for none.

        Modules of loaders with a way of their own to compile are left to them, see :func:`compiles_as_python_does`.
        """
        with self.lock:
            self.compiler = compiler
            self._take_place()

    def watch_packages(self, packages: Iterable[str], owner: object) -> None:
        """Call back for ``packages`` and every module in them, until :meth:`leave_roots`."""
        with self.lock:
            for package in packages:
                self._roots = {**self._roots, package: {**self._roots.get(package, {}), id(owner): owner}}
            self._take_place()

    @contextlib.contextmanager
    def watching_roots(self, roots: Iterable[str], owner: object) -> Iterator[None]:
        """Call back for every module of the top-level packages ``roots`` executed inside the block."""
        try:
            self.watch_packages(roots, owner)
            yield
        finally:
            self.leave_roots(owner)

    def leave_roots(self, owner: object) -> None:
        """Undo :meth:`watch_packages` or :meth:`watching_roots`, also of one that was interrupted."""
        if not self._roots:
            return
        with self.lock:
            left = {root: _but(owners, id(owner)) for root, owners in self._roots.items()}
            self._roots = {root: owners for root, owners in left.items() if owners}
            self._take_place()

    def join(self, name: str, done: Joined) -> None:
        """Call ``done`` when the import of module ``name`` ends that is under way, if any.

        For a module that somebody began to look for before it was watched: another thread imports it, its own body or a
        finder applies patches. A module that ``importlib.util.LazyLoader`` has put off is told of, like any watched
        one, when it is executed.
        """
        module = sys.modules.get(name)
        if is_lazy(module):
            self._put_off(module)
        elif name in IMPORT_LOCKS:
            _JoinedLock.join(name, done, unless=self._put_off)

    def join_elsewhere(self, done: Imported) -> None:
        """Call ``done`` for each module that another thread is importing, when that is done.

        That thread may have read a name from an executed module already, and not stored it in its own yet.
        """
        for name in imported_elsewhere():
            _JoinedLock.join(name, lambda name, module: done(name, module, {name: module}))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """Find a provided or watched module; slip the watching loader in front of the own one of a watched module."""
        # Called for every import of the program, so it takes no lock: the tables that it reads are replaced rather than
        # changed, or read by one look-up of a dictionary.
        if self._has_overtaken or sys.meta_path[:1] != [self]:
            self._stay_in_front(name)
        watched, followed = self.is_watched(name), bool(self.followers)
        provider = self._provider_of(name) if self._providers else None
        compiler = self.compiler
        if not watched and not followed and provider is None and compiler is None:
            return None
        # Another finder may go through the import system for the module that it looks for (wrapt's `ImportHookFinder`
        # does) and so call this one again. The second call returns None, and the finders behind this one answer.
        asking = self._asking.__dict__.setdefault("names", set())
        if name in asking:
            return None
        asking.add(name)
        try:
            if provider is None:
                spec = ask_finders(name, path, target, but=self)
            else:
                spec = provider.find_spec(name, functools.partial(ask_finders, name, path, target, but=self))
        finally:
            asking.discard(name)
        if compiler is not None and spec is not None and compiles_as_python_does(spec.loader):
            loader: Any = spec.loader
            if compiler.concerns(name, loader.path):
                stand_in: Any = _CompilingLoader(spec, compiler, self)
                spec.loader = stand_in
        if spec is not None and (watched or (followed and spec.loader is not None)):
            if spec.loader is None:
                # A namespace package has no body: importlib gives it a loader later (`_init_module_attrs`) and never
                # calls `exec_module` of one that it has found here. The end of its import is all there is to watch.
                _JoinedLock.join(name, self.executed)
                if name in self._windows and importer_of(name) == get_ident():  # and not a mere look-up
                    with _Body(self, name):
                        pass
            else:
                self._stand_in(spec)
        return spec

    def executed(self, name: str, module: ModuleType, body: Optional[_Body] = None) -> None:
        """Call the callback for ``module``, which was executed, in ``body`` if a loader of ours ran it."""
        if body is None:
            self.note(name)
        self._callback(name, sys.modules.get(name, module), sys.modules.copy() if body is None else body.reached())

    def note(self, name: str, *, since: Optional[float] = None, detail: str = "") -> None:
        """Call observers for the import of module ``name``; see :data:`patchcore.engine.events.Observer`."""
        if name in self._watched:
            tell(IMPORTED, name, detail, since)

    def _stay_in_front(self, name: str) -> None:
        """Overtake finders that were put in front, such as typeguard's, while module ``name`` is being imported."""
        in_front = isinstance(next(iter(sys.meta_path), None), ImportWatch) and not self._has_overtaken
        if in_front or importer_of(name) != get_ident():  # looking up a spec changes nothing
            return
        with self.lock:
            self._take_place()
            told, self._has_overtaken = self._has_overtaken, False
        if told and self._tell_overtaken is not None:
            self._tell_overtaken()

    def _put_off(self, module: Any) -> bool:
        """Stand in for the loader of ``module`` if the import has put its execution off; return whether it has."""
        spec = (namespace_of(module) or {}).get("__spec__") if is_lazy(module) else None
        if spec is not None:
            self._stand_in(spec)
        return spec is not None

    def _stand_in(self, spec: Any) -> None:
        if isinstance(spec.loader, (_WatchingLoader, _WatchingLegacyLoader)) and spec.loader.watch is self:
            return
        if hasattr(spec.loader, "exec_module"):
            spec.loader = _WatchingLoader(spec.loader, self)
        elif hasattr(spec.loader, "load_module"):
            spec.loader = _WatchingLegacyLoader(spec.loader, self, spec)

    def _provider_of(self, name: str) -> Optional[Provider]:
        """Return the provider of ``name``: the one that has taken over the innermost of the packages around it."""
        while name:
            if name in self._providers:
                return self._providers[name][-1]
            name = name.rpartition(".")[0]
        return None

    def _take_place(self) -> None:
        # A finder that came in front of this one may find modules by itself. The list is replaced, not changed:
        # another thread that walks it in the middle of an import would miss a finder.
        needed = self._watched or self._roots or self._providers or self.followers or self.compiler is not None
        place = [self] if needed else []
        if not place:
            self.overtaken, self._has_overtaken = [], False
        if sys.meta_path[:1] != place:
            finders = list(sys.meta_path)
            in_front = finders[: finders.index(self)] if place and self in finders else []
            self.overtaken = list(dict.fromkeys([*self.overtaken, *map(_name_of_finder, in_front)]))
            self._has_overtaken = self._has_overtaken or bool(in_front)
            sys.meta_path = [*place, *[finder for finder in finders if finder is not self]]


def _but(owners: Mapping[int, object], key: int) -> dict[int, object]:
    return {each: owner for each, owner in owners.items() if each != key}


def _with(table: Mapping[str, tuple[_T, ...]], key: str, value: _T) -> dict[str, tuple[_T, ...]]:
    """Return ``table`` with one more value under ``key``; tables are replaced, as others read them meanwhile."""
    return {**table, key: (*table.get(key, ()), value)}


def _without(table: Mapping[str, tuple[_T, ...]], key: str, value: _T) -> dict[str, tuple[_T, ...]]:
    left = {**table, key: tuple(other for other in table.get(key, ()) if other is not value)}
    return {name: values for name, values in left.items() if values}


def compiles_as_python_does(loader: Any) -> bool:
    """True if ``loader`` reads a source file and compiles it just as Python does.

    Import hooks that compile in their own way (pytest, typeguard, beartype) override one of the methods.
    """
    kind = type(loader)
    if kind is SourceFileLoader:
        return True
    return issubclass(kind, SourceFileLoader) and all(
        getattr(kind, name) is getattr(SourceFileLoader, name) for name in ("exec_module", "get_code", "source_to_code")
    )


def loaded_here() -> Optional[set[str]]:
    """Return the names of the loaded modules that no other thread is importing; ``None`` where no other runs."""
    # `sys._current_frames` has the frame of every thread of the interpreter, also of those that `threading` does not
    # know. Without other threads, which is the usual case, a copy of a few thousand names is saved.
    return set(sys.modules) - set(imported_elsewhere()) if len(sys._current_frames()) > 1 else None


def how_missed(name: str) -> str:
    """Return how the import of module ``name`` escaped the watch; an empty text if it is not loaded, or just now."""
    module = executed_module(name)
    if module is None or importer_of(name) is not None:
        return ""
    finders = list(sys.meta_path)
    watch = next((finder for finder in finders if isinstance(finder, ImportWatch)), None)
    if watch is None:
        return "other code removed patchcore's finder from sys.meta_path"
    hiders = dict.fromkeys([*watch.overtaken, *map(_name_of_finder, finders[: finders.index(watch)])])
    if hiders and (namespace_of(module) or {}).get("__spec__") is not None:
        return f"{', '.join(hiders)} was put in front of patchcore's finder on sys.meta_path"
    return "other code put it into sys.modules, or imported it with another sys.meta_path"


def _name_of_finder(finder: Any) -> str:
    kind = finder if isinstance(finder, type) else type(finder)
    return f"{kind.__module__}.{kind.__qualname__}"


def _lazy_names() -> list[str]:
    """Return the names of the modules whose execution ``importlib.util.LazyLoader`` has put off."""
    return [name for name, module in sys.modules.copy().items() if is_lazy(module)] if lazy_modules_exist() else []


class _Body:
    """The run of a module's body, with the windows around it.

    Args:
        watch: has the windows.
        name: of the module.
    """

    def __init__(self, watch: ImportWatch, name: str) -> None:
        # Modules that are in `sys.modules` already and whose bodies may still run during this one: those that other
        # imports are executing, and lazy ones, which wake when the body reads an attribute of theirs.
        self._running = [*IMPORT_LOCKS, *_lazy_names()]
        self._count = len(sys.modules)
        self._watch = watch
        self._name = name
        self._begun = 0.0  # seconds of time.perf_counter
        self._windows = watch._windows.get(name, ())
        self._opened: list[Window] = []

    def __enter__(self) -> None:
        try:
            for window in self._windows:
                window.open()
                self._opened.append(window)
        except BaseException:
            self._close(finished=False)
            raise
        self._begun = time.perf_counter()

    def __exit__(self, kind: Optional[type[BaseException]], *exc_info: object) -> None:
        self._watch.note(self._name, since=self._begun, detail="" if kind is None else f"raised {kind.__name__}")
        self._close(finished=kind is None)

    def reached(self) -> Mapping[str, ModuleType]:
        """Return the modules that have run since the body began; no other can hold an object of its module by value."""
        # `sys.modules` keeps the order in which modules came, so the new ones are behind this one. The list is made
        # first: garbage collection during the comparisons may let another thread import a module.
        new = list(itertools.takewhile(self._name.__ne__, reversed(list(sys.modules))))
        if len(sys.modules) - len(new) != self._count:  # it was not the last one when it began, or some were removed
            return sys.modules.copy()
        names = (*self._running, *IMPORT_LOCKS, self._name, *new)
        return {key: m for key, m in zip(names, map(sys.modules.get, names)) if m is not None}

    def _close(self, *, finished: bool) -> None:
        for window in reversed(self._opened):
            window.close(finished=finished)


class _Followed:
    """The run of a module's body, as followers see it.

    Args:
        watch: has the followers.
        name: of the module.
        module: as it is before its body runs; ``None`` if the loader makes it.
    """

    def __init__(self, watch: ImportWatch, name: str, module: Optional[ModuleType]) -> None:
        self._followers = watch.followers
        self._name = name
        self._module = module

    def __enter__(self) -> None:
        for follower in self._followers:
            follower.begins(self._name)

    def __exit__(self, kind: Optional[type[BaseException]], *exc_info: object) -> None:
        module = sys.modules.get(self._name, self._module)  # a body may put another object into sys.modules
        for follower in self._followers:
            if module is not None:
                follower.ended(self._name, module, finished=kind is None)


class _LoaderStandIn:
    """Stands in for a module's loader until the module is executed; all but that goes to the real one."""

    def __init__(self, loader: Any, watch: ImportWatch) -> None:
        self._loader = loader
        self.watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _WatchingLoader(_LoaderStandIn):
    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        create = getattr(self._loader, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module: ModuleType) -> None:
        # Before the body runs: it may read its own data through `__spec__.loader` or `__loader__` (importlib.resources,
        # pkgutil.get_data), and code that tells loaders apart by their class must find the real one.
        space = namespace_of(module) or {}
        spec = space.get("__spec__")
        if spec is not None and spec.loader is self:
            spec.loader = self._loader
        if space.get("__loader__") is self:
            space["__loader__"] = self._loader
        name = spec.name if spec is not None else module.__name__
        if isinstance(self._loader, importlib.util.LazyLoader) and spec is not None:
            # LazyLoader puts the execution off: it keeps the real loader in the spec and calls that when an attribute
            # of the module is read (`_LazyModule.__getattribute__` in importlib/util.py). Stand in for the real one,
            # too.
            self._loader.exec_module(module)
            spec.loader = _WatchingLoader(spec.loader, self.watch)
            return
        if not self.watch.is_watched(name):
            with _Followed(self.watch, name, module):
                self._loader.exec_module(module)
            return
        body = _Body(self.watch, name)
        with body, _Followed(self.watch, name, module):
            self._loader.exec_module(module)
        was_there = name in sys.modules
        self.watch.executed(name, module, body)
        if was_there and name not in sys.modules:  # the patch that makes it has failed, and was reverted
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _CompilingLoader(_LoaderStandIn):
    """Runs the code that a :class:`Compiler` gives; the module, and code that runs later, has the real loader."""

    def __init__(self, spec: ModuleSpec, compiler: Compiler, watch: ImportWatch) -> None:
        super().__init__(spec.loader, watch)
        self._spec = spec
        self._compiler = compiler

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return None

    def get_code(self, name: str) -> CodeType:
        """Return the code of module ``name`` for ``runpy``, which runs it as the program (``python -m``)."""
        self._spec.loader = self._loader
        return self._compiler.code_of(name, self._loader, alone=True)[0]

    def exec_module(self, module: ModuleType) -> None:
        space = namespace_of(module)
        assert space is not None
        self._spec.loader = self._loader
        if space.get("__loader__") is self:
            space["__loader__"] = self._loader
        code, names = self._compiler.code_of(self._spec.name, self._loader, alone=False)
        space.update(names)
        _call_with_frames_removed(code, space)


class _WatchingLegacyLoader(_LoaderStandIn):
    """For a loader that creates and executes in one go, as zipimport's before Python 3.10."""

    def __init__(self, loader: Any, watch: ImportWatch, spec: Any) -> None:
        super().__init__(loader, watch)
        self._spec = spec

    def load_module(self, name: str) -> ModuleType:
        # importlib calls this because the stand-in has no `exec_module` (`_load_unlocked`), as the real loader has none
        self._spec.loader = self._loader
        body = _Body(self.watch, name)
        with body, _Followed(self.watch, name, None):
            module: ModuleType = self._loader.load_module(name)
        self.watch.executed(name, module, body)
        return module


def _call_with_frames_removed(code: CodeType, space: Any) -> None:
    """Run the body of a module; importlib knows the frame below by the name of this function."""
    exec(code, space)


# importlib leaves its own frames out of tracebacks, by this file name (remove_importlib_frames in CPython's import.c),
# with whatever is between them: the traceback of an import that fails is the same whether the module is watched or not.
_LIKE_IMPORTLIB: tuple[Any, ...] = (
    _WatchingLoader.exec_module,
    _WatchingLegacyLoader.load_module,
    _CompilingLoader.exec_module,
    _call_with_frames_removed,
)
for _method in _LIKE_IMPORTLIB:
    _method.__code__ = _method.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")


class _JoinedLock(ModuleLock):  # type: ignore[misc]
    """The lock of an import that was under way when the engine began to wait for its end.

    A thread holds the lock of a module from before it asks the first finder until the module is executed
    (``importlib._bootstrap._find_and_load``, CPython 3.4 to 3.14). Its release is the one moment at which every import
    can be joined, however far it has come: in a finder, in the body, or after it.
    """

    @classmethod
    def join(cls, name: str, done: Joined, unless: Callable[[ModuleType], bool] = lambda module: False) -> None:
        """Call ``done`` with the module's name and the module when the import of ``name`` ends that is under way.

        Where it ends in this moment nobody is called: look whether the module is loaded after joining.

        Args:
            name: of the module.
            done: called once, however often it joins.
            unless: asked before ``done`` is called.
        """
        lock = import_lock(name)
        if lock is None or lock.owner is None:
            return
        # importlib holds the lock in its own tables and in the frames of its callers, so no other object can be put in
        # its place. It is a class in Python without `__slots__`, whose instances may change to a subclass.
        lock.__dict__.setdefault("_patchcore_calls", {})[done] = unless
        lock.__class__ = cls

    def release(self) -> None:
        module = sys.modules.get(self.name)
        try:
            # A thread may hold the lock several times: an import circle asks for it again, and gives it back while the
            # body still runs. Only the release after the body counts. A failed import has left no module, and no call.
            if module is not None and (is_lazy(module) or not is_initializing(module)):
                # Still locked, so that other threads that import the module wait until the patches are in force.
                self.__class__ = ModuleLock
                calls = self.__dict__.pop("_patchcore_calls", {})
                for done, unless in list(calls.items()):
                    if not unless(module):
                        done(self.name, module)
        finally:
            ModuleLock.release(self)
