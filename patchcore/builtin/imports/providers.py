"""Code that all providers of modules share.

See :mod:`patchcore.builtin.imports.stub_imports` and :mod:`patchcore.builtin.imports.replaced_imports`.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from patchcore.declare.slots import ItemSlot, NamespaceSlot, Slot
from patchcore.declare.target import Item, Target
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.journal import Layer, Record
from patchcore.errors import TargetError
from patchcore.objects.modules import ABSENT, executed_module, namespace_of

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["Ledger", "ProviderLoader", "refuse_parent_that_cannot_have"]


class Ledger:
    """Writes the modules of a provider to ``sys.modules`` and to packages, and enters each write in the journal.

    Args:
        engine: the engine.
        application, state: the patch and the change that own the writes.
    """

    def __init__(self, engine: Engine, application: Application, state: ChangeState) -> None:
        self._journal = engine.journal
        self._application = application
        self._state = state

    def enter(self, name: str, module: Any, before: Any) -> Record:
        """Put ``module`` in ``sys.modules`` in the place of ``before``, and in its package if that has it there.

        Args:
            name: full name of the module.
            module: the module, ``ABSENT`` for none.
            before: the earlier module, ``ABSENT`` for none.
        """
        slot = ItemSlot(sys.modules, name, str(Target("sys", ("modules", Item(name)))))
        record = self._journal.find(slot)
        if record is not None and record.layers[-1].owner is self._application and record.top is module:
            return record  # a reload
        record = self._journal.adopt(slot, Layer(self._application, self._state.change, module, before), before)
        self._state.wrote(slot.name)
        self._bind_in_package(record, name, module, before)
        return record

    def bind(self, slot: Slot, value: Any) -> None:
        """Write ``value`` to a slot that held, by value, the object that it replaces."""
        self._journal.push(slot, Layer(self._application, self._state.change, value, slot.lookup()))
        self._state.rebound += (slot.name,)

    def _bind_in_package(self, record: Record, name: str, module: Any, before: Any) -> None:
        package, _, tail = name.rpartition(".")
        parent = sys.modules.get(package)
        if not package or parent is None or namespace_of(parent) is None or module is ABSENT:
            return
        slot = NamespaceSlot(parent, tail, f"{package}:{tail}")
        held = slot.read()
        if self._journal.looks_after(slot) or held is module:
            return
        if held is before:  # also where neither is there: the import system binds the module after this
            self._journal.follow(record, slot)
        elif before is not ABSENT:
            return  # for example, a function of the same name hides the module
        else:
            self._journal.push(slot, Layer(self._application, self._state.change, module, held))
        self._state.wrote(slot.name)


class ProviderLoader:
    """Loads the modules of one provider."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        module: Optional[ModuleType] = self.provider.create(spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec: Any = (namespace_of(module) or {})["__spec__"]
        self.provider.execute(spec.name, module)


def refuse_parent_that_cannot_have(name: str) -> None:
    """Raise when the module around module ``name`` is imported and is no package."""
    package = name.rpartition(".")[0]
    parent = executed_module(package) if package else None
    if parent is not None and "__path__" not in (namespace_of(parent) or {}):
        raise TargetError(f"{package} is a module, not a package: nothing can be imported as {name}")
