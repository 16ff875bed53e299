"""Puts :class:`~patchcore.builtin.each_module.change.EachModule` in force: adds changes to its patch.

The engine calls a witness for each module of a watched package, right after its body ran and before the changes that
wait for it are written. The witness adds the changes of the module to the application, so that they are written then.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from patchcore.builtin.each_module.change import EachModule
from patchcore.declare.changes import SlotChange
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.errors import CONTAINED
from patchcore.objects.modules import executed_module, is_initializing, loaded_modules
from patchcore.objects.printable import counted

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["EachModuleWriter"]


class EachModuleWriter(Writer):
    """Puts :class:`~patchcore.builtin.each_module.change.EachModule` in force."""

    def write(self, context: WriteContext) -> None:
        assert isinstance(context.change, EachModule)
        witness = _Witness(self._engine, context.application, context.state, context.change)
        with context.journal.lock:
            if not context.begin():
                return
            context.state.control = witness
            self._engine.watch.watch_packages([context.change.target.module], witness)
            self._engine.witnesses.append(witness)
        witness.look_at_loaded()


class _Witness:
    """One change in force: looks at each module when its body has run."""

    def __init__(self, engine: Engine, application: Application, state: ChangeState, change: EachModule) -> None:
        self._engine = engine
        self._application = application
        self._state = state
        self._change = change
        self._seen: set[str] = set()
        self._changed = 0

    def look_at_loaded(self) -> None:
        """Look at the modules that were imported before; at one that is being imported when that ends."""
        for name, module in loaded_modules().items():
            if self._change.covers_module(name):
                if executed_module(name) is module:
                    self.add(name, module)
                elif is_initializing(module):
                    self._engine.watch.join(name, self._joined)
        self._note()

    def _joined(self, name: str, module: ModuleType) -> None:
        self.add(name, module)
        self._engine.sweep([self._application])

    def add(self, name: str, module: ModuleType) -> None:
        """Add the changes of a module to the patch. An error fails the patch."""
        if name in self._seen or not self._change.covers_module(name) or not self._application.in_force:
            return
        self._seen.add(name)
        try:
            with CONTAINED:
                changes = self._change.changes_of(module)
        except Exception as error:
            self._engine.fail(self._application, self._state, error)
            return
        if changes:
            self._changed += 1
            self._extend(changes)
        self._note()

    def _extend(self, changes: Sequence[SlotChange]) -> None:
        """Add changes to the patch. They are written when the engine advances it the next time."""
        application = self._application
        with self._engine.journal.lock:
            if application.in_force:
                application.add(changes)
                for name in application.modules:
                    if name not in application.expects:
                        self._engine.expect(name, application)

    def _note(self) -> None:
        seen = counted(len(self._seen), "module")
        self._state.reason = f"looked at {seen}, changed {self._changed}"

    def catch_up(self, name: str, module: ModuleType) -> None:
        """Nothing is left to do: loaded modules were looked at when the patch was applied."""

    def withdraw(self) -> list[str]:
        """Look at no further modules. The journal restores those that were changed."""
        witnesses = self._engine.witnesses
        witnesses[:] = [other for other in witnesses if other is not self]
        self._engine.watch.leave_roots(self)
        return []
