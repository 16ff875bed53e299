"""Providing stubs: how a :class:`~patchcore.builtin.imports.changes.StubImport` is put in force.

Every stub module that comes into ``sys.modules`` is entered in the journal, with the attribute of its package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from patchcore.builtin.imports.changes import StubImport
from patchcore.builtin.imports.providers import Ledger, ProviderLoader, refuse_parent_that_cannot_have
from patchcore.builtin.imports.stubs import StubModule, StubOrigin
from patchcore.declare.changes import resolve
from patchcore.engine import references
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.importing import AskOthers
from patchcore.objects.modules import ABSENT, StubSpec, find_module, found_spec, loaded_modules, namespace_of
from patchcore.report import APPLIED, SKIPPED

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["StubWriter"]


class StubWriter(Writer):
    """Puts a :class:`~patchcore.builtin.imports.changes.StubImport` in force, where there is nothing to hide."""

    def write(self, context: WriteContext) -> None:
        application, state = context.application, context.state
        name = state.target.module
        if find_module(name):
            state.status, state.reason = SKIPPED, f"{name} exists ({_whereabouts(name)}), and a stub would hide it"
            return
        refuse_parent_that_cannot_have(name)
        provider = _StubProvider(self._engine, application, state)
        with self._engine.journal.lock:
            if not application.in_force or state.control is not None:
                return
            state.control = provider
            state.status, state.reason = APPLIED, ""
            if name in sys.modules and sys.modules[name] is None:  # other code has blocked the import
                provider.ledger.enter(name, ABSENT, None)
            self._engine.watch.provide(name, provider)


class _StubProvider:
    """Finds a module that is not there, and all that is inside it."""

    def __init__(self, engine: Engine, application: Application, state: ChangeState) -> None:
        assert isinstance(state.change, StubImport)
        self._engine = engine
        self._application = application
        self._state = state
        self._change = state.change
        self._origin = StubOrigin(state.target.module, f"patch {application} ({application.provenance})")
        self._modules: list[StubModule] = []
        self.ledger = Ledger(engine, application, state)

    def find_spec(self, name: str, ask_others: AskOthers) -> Optional[ModuleSpec]:
        """Find a stub, unless there is a real module after all: a program may add to ``sys.path``."""
        found = ask_others()
        if found is not None:
            if name == self._state.target.module:
                self._state.status = SKIPPED
                self._state.reason = f"{name} exists now ({found.origin}), and a stub would hide it"
            return found
        return StubSpec(name, ProviderLoader(self), is_package=True)  # type: ignore[arg-type]

    def create(self, name: str) -> ModuleType:
        """Return a new stub module."""
        attributes: dict[str, Any] = {"__version__": self._change.version}
        if name == self._state.target.module:
            try:
                attributes.update((key, resolve(value)) for key, value in self._change.attributes.items())
            except Exception as error:
                self._engine.fail(self._application, self._state, error)
                raise _not_found(name) from error
        return StubModule(name, self._origin, attributes)

    def execute(self, name: str, module: ModuleType) -> None:
        """Enter the stub in the journal."""
        with self._engine.journal.lock:
            if self._state.control is not self:
                raise _not_found(name)
            if isinstance(module, StubModule):
                self._modules.append(module)
            self.ledger.enter(name, module, ABSENT)

    def catch_up(self, name: str, module: ModuleType) -> None:
        """Do nothing: no real module is hidden by a stub."""

    def withdraw(self) -> list[str]:
        """Find nothing any more; return a note on the names that hold stubs."""
        self._engine.watch.withdraw(self._state.target.module, self)
        self._origin.reverted = True
        names = sorted(_names_of_stubs(self._modules))
        if not names:
            return []
        return [
            f"{', '.join(names)}: still a stub of {self._state.target.module}, which raises StubError when it is used"
        ]


def _names_of_stubs(modules: Iterable[StubModule]) -> set[str]:
    """Return the names, outside of stubs, that hold one of the stub modules or something got from it."""
    stubs = [stub for module in modules for stub in module.known()]
    places = {slot.name for slot, _ in references.find_references(stubs, loaded_modules())}
    own = {module.__name__ for module in modules}
    return {place for place in places if place.partition(":")[0] not in own}


def _not_found(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


def _whereabouts(name: str) -> str:
    module = sys.modules.get(name)
    spec = found_spec(name) if module is None else (namespace_of(module) or {}).get("__spec__")
    if spec is None:
        return "in sys.modules"
    return spec.origin or f"a folder without __init__.py: {', '.join(spec.submodule_search_locations or ())}"
