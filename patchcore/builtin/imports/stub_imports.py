"""Puts ``StubImport`` and ``DummyImport`` in force: provides modules that are not installed.

Every such module that comes into ``sys.modules`` is entered in the journal, with the attribute of its package.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Container, Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

from patchcore.builtin.imports.askers import askers
from patchcore.builtin.imports.changes import StubImport
from patchcore.builtin.imports.providers import Ledger, ProviderLoader, refuse_parent_that_cannot_have
from patchcore.builtin.imports.stubs import StubModule, StubOrigin
from patchcore.declare.changes import resolve
from patchcore.engine import references
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.importing import AskOthers
from patchcore.logs import logger
from patchcore.objects.modules import ABSENT, StubSpec, find_module, found_spec, loaded_modules, namespace_of
from patchcore.report import APPLIED, SKIPPED

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["DummyWriter", "StubWriter"]

#: How many modules a warning names.
_SHOWN = 3
#: The name in an empty module that holds a function: whether a patch makes the module of a name.
_IS_MADE = "__patchcore_is_made__"


class StubWriter(Writer):
    """Puts a ``StubImport`` in force, unless there is a real module, which it would hide."""

    def write(self, context: WriteContext) -> None:
        application, state = context.application, context.state
        name = state.target.module
        if find_module(name):
            state.status, state.reason = (
                SKIPPED,
                f"{name} exists ({_whereabouts(name)}), and a {state.change.kind} would hide it",
            )
            return
        refuse_parent_that_cannot_have(name)
        provider = self._provider(application, state)
        late = _who_goes_on_without(name)
        with self._engine.journal.lock:
            if not application.in_force or state.control is not None:
                return
            state.control = provider
            state.status, state.reason = APPLIED, ""
            warned = any(other.late for other in application.states)
            state.late = late
            if name in sys.modules and sys.modules[name] is None:  # other code has blocked the import
                provider.ledger.enter(name, ABSENT, None)
            self._engine.watch.provide(name, provider)
        if late and not warned:  # once for a module and the packages around it
            logger().warning("patch %s: %s", application, late)

    def _provider(self, application: Application, state: ChangeState) -> _Provider:
        return _StubProvider(self._engine, application, state)


class DummyWriter(StubWriter):
    """Puts a ``DummyImport`` in force, unless there is a real module, which it would hide."""

    def _provider(self, application: Application, state: ChangeState) -> _Provider:
        return _DummyProvider(self._engine, application, state)


class _Provider:
    """Finds a module that is not there."""

    def __init__(self, engine: Engine, application: Application, state: ChangeState) -> None:
        self._engine = engine
        self._application = application
        self._state = state
        self._name = state.target.module
        self._modules: list[ModuleType] = []
        self.ledger = Ledger(engine, application, state)

    def find_spec(self, name: str, ask_others: AskOthers) -> Optional[ModuleSpec]:
        """Find the module, unless there is a real one after all: a program may add to ``sys.path``."""
        found = ask_others()
        if found is not None:
            if name == self._name:
                self._state.status = SKIPPED
                self._state.reason = (
                    f"{name} exists now ({found.origin}), and a {self._state.change.kind} would hide it"
                )
            return found
        return self._find(name)

    def _find(self, name: str) -> Optional[ModuleSpec]:
        raise NotImplementedError

    def execute(self, name: str, module: ModuleType) -> None:
        """Enter the module in the journal."""
        with self._engine.journal.lock:
            if self._state.control is not self:
                raise _not_found(name)
            self._modules.append(module)
            self.ledger.enter(name, module, ABSENT)

    def catch_up(self, name: str, module: ModuleType) -> None:
        """Do nothing: no real module is hidden."""

    def withdraw(self) -> list[str]:
        """Find nothing any more; return a note on the names that still hold a module that was found."""
        self._engine.watch.withdraw(self._name, self)
        names = sorted(self._names_of(self._made(), {module.__name__ for module in self._modules}))
        return [f"{', '.join(names)}: {self._left()}"] if names else []

    def _names_of(self, made: Iterable[Any], own: Container[str]) -> set[str]:
        """Return the names, outside of the modules ``own``, that hold one of ``made`` and that the revert leaves so."""
        found = references.find_references(list(made), loaded_modules())
        places = {slot.name for slot, _ in found if not self._engine.journal.looks_after(slot)}
        return {place for place in places if place.partition(":")[0] not in own}

    def _made(self) -> list[Any]:
        """Return the objects that were created for imports: modules, and the stubs in them."""
        return list(self._modules)

    def _left(self) -> str:
        """Return the note on names that still hold such an object after the revert."""
        return f"still the empty module {self._name}"


class _DummyProvider(_Provider):
    def _find(self, name: str) -> Optional[ModuleSpec]:
        if name != self._name:
            return None
        return StubSpec(name, ProviderLoader(self), is_package=True)  # type: ignore[arg-type]

    def create(self, name: str) -> ModuleType:
        """Return a new empty module."""
        text = f"Made by patch {self._application}: {name} is not installed."
        return _DummyModule(name, text, self._engine.watch.provides)


class _DummyModule(ModuleType):
    """An empty module. Modules inside it that patches make are attributes of it without an import of their own.

    Packages import their parts in most cases, and programs depend on it: Megatron-LM 0.12.1 writes
    ``import transformer_engine as te`` and then ``te.common.recipe.DelayedScaling``.

    Args:
        name: of the module.
        text: its docstring.
        is_made: returns whether a patch makes the module of a name.
    """

    def __init__(self, name: str, text: str, is_made: Callable[[str], bool]) -> None:
        super().__init__(name, text)
        self.__dict__[_IS_MADE] = is_made

    def __getattr__(self, name: str) -> Any:
        inner = f"{self.__name__}.{name}"
        if not name.startswith("__") and self.__dict__[_IS_MADE](inner):
            return importlib.import_module(inner)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _StubProvider(_Provider):
    """Finds a module that is not there, and all that is inside it."""

    def __init__(self, engine: Engine, application: Application, state: ChangeState) -> None:
        super().__init__(engine, application, state)
        assert isinstance(state.change, StubImport)
        self._change = state.change
        self._origin = StubOrigin(self._name, f"patch {application} ({application.provenance})")

    def _find(self, name: str) -> Optional[ModuleSpec]:
        return StubSpec(name, ProviderLoader(self), is_package=True)  # type: ignore[arg-type]

    def create(self, name: str) -> ModuleType:
        """Return a new stub module."""
        attributes: dict[str, Any] = {"__version__": self._change.version}
        if name == self._name:
            try:
                attributes.update((key, resolve(value)) for key, value in self._change.attributes.items())
            except Exception as error:
                self._engine.fail(self._application, self._state, error)
                raise _not_found(name) from error
        return StubModule(name, self._origin, attributes)

    def withdraw(self) -> list[str]:
        self._origin.reverted = True
        return super().withdraw()

    def _made(self) -> list[Any]:
        return [stub for module in self._modules if isinstance(module, StubModule) for stub in module.known()]

    def _left(self) -> str:
        return f"still a stub of {self._name}, which raises StubError when it is used"


def _who_goes_on_without(name: str) -> str:
    """Return which modules were imported before ``name`` could be, and import it themselves; empty for none."""
    found = askers(name)
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    verb = "was" if len(found) == 1 else "were"
    return (
        f"{', '.join(found[:_SHOWN])}{more} {verb} imported before, and asked for {name}: it was missing then. "
        "Apply the patch before that import"
    )


def _not_found(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


def _whereabouts(name: str) -> str:
    module = sys.modules.get(name)
    spec = found_spec(name) if module is None else (namespace_of(module) or {}).get("__spec__")
    if spec is None:
        return "in sys.modules"
    return spec.origin or f"a folder without __init__.py: {', '.join(spec.submodule_search_locations or ())}"
