"""Puts a :class:`~patchcore.builtin.imports.changes.ReplaceImport` in force: an import returns another module.

Every module that is put into ``sys.modules`` is entered in the journal, with the attribute of its package and the names
that are bound anew.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from patchcore.builtin.imports.changes import ReplaceImport
from patchcore.builtin.imports.providers import Ledger, ProviderLoader, refuse_parent_that_cannot_have
from patchcore.declare.changes import resolve
from patchcore.declare.slots import Slot
from patchcore.declare.target import Target
from patchcore.engine import references
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.importing import AskOthers
from patchcore.engine.journal import Record
from patchcore.errors import CONTAINED, TargetError, TargetNotFound, did_you_mean
from patchcore.objects.binding import has_identity
from patchcore.objects.modules import (
    ABSENT,
    dotted_prefixes,
    find_module,
    is_initializing,
    is_lazy,
    loaded_modules,
    missing_ancestor,
    module_file,
    namespace_of,
    search_path,
    submodule_names,
)
from patchcore.process import imported_elsewhere, importer_of
from patchcore.report import APPLIED

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["ReplacementWriter"]


class ReplacementWriter(Writer):
    """Puts :class:`~patchcore.builtin.imports.changes.ReplaceImport` in force and rebinds earlier imports."""

    def write(self, context: WriteContext) -> None:
        application, state = context.application, context.state
        assert isinstance(state.change, ReplaceImport)
        name, other = state.target.module, state.change.with_
        missing = missing_ancestor(other.module) if isinstance(other, Target) else None
        if missing is not None:
            parent = missing.rpartition(".")[0]
            near = did_you_mean(missing, submodule_names(parent)) if parent else "; install it or disable the patch"
            raise TargetNotFound(f"no module {missing!r} to put in the place of {name}{near}")
        refuse_parent_that_cannot_have(name)
        found = sys.modules.get(name)
        if found is not None and is_initializing(found) and not is_lazy(found):
            raise TargetError(
                f"{name} is being imported, so it is too late to put another module in its place; apply the patch "
                "earlier"
            )
        provider = _Replacement(self._engine, application, state)
        with self._engine.journal.lock:
            if not application.in_force or state.control is not None:
                return
            state.control = provider
            self._engine.watch.provide(name, provider)
            if isinstance(other, Target):
                self._engine.watch.surround(other.module, provider)
        for begun in [name, *(other for other in imported_elsewhere() if other.startswith(f"{name}."))]:
            self._engine.watch.join(begun, provider.catch_up)
        if name in sys.modules:
            provider.take_over()


class _Replacement:
    """Finds other modules in the place of one and of those inside it.

    It is also the window around the body of the other module, which gets the real one.
    """

    def __init__(self, engine: Engine, application: Application, state: ChangeState) -> None:
        assert isinstance(state.change, ReplaceImport)
        self._engine = engine
        self._application = application
        self._tables = application.extensions.tables
        self._state = state
        self._name = state.target.module
        self._other = state.change.with_
        self._importing = threading.local()
        self._waiting: dict[str, tuple[Any, Any]] = {}  # name -> the other module, and the earlier one
        self._new: dict[str, Optional[set[str]]] = {}  # name -> the modules before, if the other module is a new one
        self.ledger = Ledger(engine, application, state)

    def find_spec(self, name: str, ask_others: AskOthers) -> Optional[ModuleSpec]:
        """Find the module that replaces ``name``; while that itself is being imported, the real one."""
        other = self._counterpart(name)
        if self._is_importing or (other is not None and _is_imported_by_this_thread(other)):
            return ask_others()
        if not self._has(name):
            return None
        spec = ModuleSpec(name, ProviderLoader(self), origin=module_file(other) if other else None)  # type: ignore[arg-type]
        spec.submodule_search_locations = search_path(other) if other else None
        return spec

    def create(self, name: str) -> None:
        """Import the other module, and let the import system make a placeholder, which :meth:`execute` exchanges."""
        before = set(sys.modules)
        try:
            other = self._import(name)
        except Exception as error:
            self._engine.fail(self._application, self._state, error)
            other = importlib.import_module(name)  # the real one, now that the patch is undone
        self._waiting[name] = other, sys.modules.get(name, ABSENT)
        self._new[name] = None if self._counterpart(name) in before else before

    def execute(self, name: str, module: ModuleType) -> None:
        """Put the other module in the place of the placeholder: an import returns the entry of ``sys.modules``.

        One module under two names means one class, whatever the name it is imported by. (Exchanging one's own entry is
        documented: Python reference, "The import system", 5.4.3.)
        """
        if name not in self._waiting:  # a reload of a module that was made
            module.__dict__.update(self._exports())
            return
        other, before = self._waiting.pop(name)
        before_it = self._new.pop(name, None)
        # Names of a module that this import has made are only in modules that it has imported, and in those around it.
        some = None
        if before_it is not None:
            names = [n for n in set(sys.modules) - before_it if type(n) is str]
            some = {
                n: sys.modules[n] for n in (*names, *dotted_prefixes(self._counterpart(name) or "")) if n in sys.modules
            }
        self._engine.rebinder.see_homes([other], some, tables=self._tables)
        with self._engine.journal.lock:
            sys.modules[name] = other
            if self._state.control is not self:
                return
            self.ledger.enter(name, other, before)
            self._state.status, self._state.reason = APPLIED, ""
            if name == self._name:
                self._displace(inner for inner in list(sys.modules) if inner.startswith(f"{name}."))
        self._engine.announce(self._application)

    def take_over(self) -> None:
        """Exchange modules that were imported before, and rebind the names that other modules got from them.

        Another thread may be inside an import statement that has read the real module and has not bound its names yet.
        """
        importing = imported_elsewhere()
        loaded = {
            name: module
            for name, module in loaded_modules().items()
            if f"{name}.".startswith(f"{self._name}.") and not self._is_placeholder(module)
        }
        others = {name: self._import(name) for name in loaded if self._has(name)}
        shared = [pair for name, other in others.items() for pair in _shared_exports(name, loaded[name], other)]
        exports = {id(old): (old, new) for old, new in shared}
        new = [*others.values(), *(value for _, value in shared if has_identity(value))]
        self._engine.rebinder.see_homes(new, tables=self._tables)
        del new  # a reference of this list would count as one of an unknown holder
        with self._engine.journal.lock:
            if self._state.control is not self:
                return
            originals = [loaded[name] for name in others if loaded[name] is not None]
            wanted = [*originals, *(old for old, _ in exports.values())]
            found = references.find_references(wanted, loaded_modules(), tables=self._tables)
            records = {id(loaded[name]): self.ledger.enter(name, other, loaded[name]) for name, other in others.items()}
            for slot, held in found:
                self._rebind(slot, held, records, exports)
            self._displace(name for name in loaded if name not in others)
            importing += imported_elsewhere()
            self._state.status, self._state.reason = APPLIED, _may_keep(importing[0]) if importing else ""

    def _is_placeholder(self, module: Any) -> bool:
        """Return whether another thread imports ``module`` through this object, and is about to exchange it."""
        spec = (namespace_of(module) or {}).get("__spec__")
        loader: Any = spec.loader if type(spec) is ModuleSpec else None
        return type(loader) is ProviderLoader and loader.provider is self

    def catch_up(self, name: str, module: ModuleType) -> None:
        """Put the other module in the place of the real one, which was imported past this provider."""
        if self._state.control is not self or self._is_importing or self._name not in sys.modules:
            return
        try:
            self.take_over()
        except Exception as error:
            self._engine.fail(self._application, self._state, error)
            return
        if importer_of(name) is not None:  # the statement that imports it has got the real module already
            self._state.reason = _may_keep(name)

    def withdraw(self) -> list[str]:
        """Find nothing any more."""
        self._engine.watch.withdraw(self._name, self)
        if isinstance(self._other, Target):
            self._engine.watch.leave(self._other.module, self)
        return []

    def open(self) -> None:
        """From here on, in this thread, an import of the replaced module returns the real one."""
        self._importing.depth = getattr(self._importing, "depth", 0) + 1

    def close(self, *, finished: bool) -> None:
        """The other module is there; put it in the place of the real one, if its body has imported that."""
        self._importing.depth -= 1
        if finished and self._name in sys.modules:
            self.catch_up(self._name, sys.modules[self._name])

    @property
    def _is_importing(self) -> bool:
        return bool(getattr(self._importing, "depth", 0))

    def _counterpart(self, name: str) -> Optional[str]:
        """Return the name of the module that stands for ``name``, ``None`` where the change has none."""
        return f"{self._other.module}{name[len(self._name) :]}" if isinstance(self._other, Target) else None

    def _has(self, name: str) -> bool:
        """Return whether there is something to stand for module ``name``."""
        other = self._counterpart(name)
        return name == self._name if other is None else find_module(other)

    def _import(self, name: str) -> ModuleType:
        """Return the module that replaces ``name``, imported or made."""
        self.open()
        try:
            other = self._counterpart(name)
            if other is not None:
                with CONTAINED:
                    return importlib.import_module(other)
            made = ModuleType(name, f"Made by patch {self._application} ({self._application.provenance}).")
            made.__dict__.update(self._exports())
            made.__spec__ = ModuleSpec(name, ProviderLoader(self))  # type: ignore[arg-type]
            made.__package__ = name.rpartition(".")[0]
            return made
        finally:
            self._importing.depth -= 1

    def _exports(self) -> dict[str, Any]:
        exports: Mapping[str, Any] = self._other
        return {**{key: resolve(value) for key, value in exports.items()}, "__all__": list(exports)}

    def _displace(self, names: Iterable[str]) -> None:
        """Take the submodules of the replaced module out of ``sys.modules``: the next import finds the replacements."""
        for name in names:
            held = sys.modules.get(name, ABSENT)
            if held is not ABSENT:
                del sys.modules[name]
                self.ledger.enter(name, ABSENT, held)

    def _rebind(
        self, slot: Slot, held: Any, records: Mapping[int, Record], exports: Mapping[int, tuple[Any, Any]]
    ) -> None:
        """Rebind a name that holds a replaced module or one of its exports; names in the two packages are kept.

        Args:
            slot: the name.
            held: the object that it holds.
            records: of the replaced modules in ``sys.modules``, by ``id`` of the module.
            exports: pairs of exports with the same name, (replaced, new), by ``id`` of the replaced one.
        """
        module = slot.name.partition(":")[0]
        own = [self._name, *([self._other.module] if isinstance(self._other, Target) else [])]
        if any(f"{module}.".startswith(f"{package}.") for package in own):
            self._state.kept += (slot.name,)
        elif self._engine.journal.looks_after(slot):
            return
        elif id(held) in records:
            self._engine.journal.follow(records[id(held)], slot)
            self._state.rebound += (slot.name,)
        else:
            self.ledger.bind(slot, exports[id(held)][1])


def _may_keep(importing: str) -> str:
    return f"{importing} was being imported at that time: names bound by that import may keep the real module"


def _shared_exports(name: str, old: Optional[ModuleType], other: ModuleType) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of objects that modules ``old``, called ``name``, and ``other`` have under the same name.

    Only objects that are defined in ``old`` or below it: other modules may have imported all else from its own home.
    """
    mine, theirs = namespace_of(old) or {}, namespace_of(other) or {}
    for key, value in list(mine.items()):
        if key.startswith("__") or key not in theirs or theirs[key] is value:
            continue
        if has_identity(value) and references.is_home(Target(name, (key,)), value):
            yield value, theirs[key]


def _is_imported_by_this_thread(name: str) -> bool:
    """Return whether the body of module ``name`` is being run by this thread, as far as that is known."""
    here = importer_of(name) in (None, threading.get_ident())
    return here and name in sys.modules and is_initializing(sys.modules[name])
