"""Patches that are in force while the body of a module runs.

The writer of :class:`~patchcore.builtin.imports.changes.WhileImporting`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Optional

from patchcore.builtin.imports.changes import WhileImporting
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.rebinding import Moves
from patchcore.objects.modules import is_lazy
from patchcore.report import APPLIED, PENDING, SKIPPED

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["WhileImportingWriter"]


class WhileImportingWriter(Writer):
    """Puts :class:`~patchcore.builtin.imports.changes.WhileImporting` in force: a window around a module's body."""

    def write(self, context: WriteContext) -> None:
        application, state = context.application, context.state
        name = state.target.module
        self._engine.check_findable(application, name)
        window = _ChangeWindow(self._engine, application, state)
        with self._engine.journal.lock:
            if not application.in_force or state.control is not None:
                return
            state.control = window
            self._engine.watch.surround(name, window)
        self._engine.watch.join(name, window.catch_up)
        if name in sys.modules and not is_lazy(sys.modules[name]):
            window.catch_up(name, sys.modules[name])


class _ChangeWindow:
    """Holds the inner changes of one :class:`~patchcore.builtin.imports.changes.WhileImporting` while it is open.

    They are an application of their own, which this object holds as a Patcher holds the others.
    """

    def __init__(self, engine: Engine, application: Application, state: ChangeState) -> None:
        assert isinstance(state.change, WhileImporting)
        self._engine = engine
        self._application = application
        self._state = state
        self._changes = state.change.changes
        self._inner: Optional[Application] = None
        self.opened = False

    def open(self) -> None:
        """Put the inner changes in force; those of modules that the body imports follow then."""
        outer = self._application
        patch = outer.patch.evolve(changes=self._changes)
        targets = [change.target.pin() for change in self._changes]
        with self._engine.journal.lock:
            if not outer.in_force or self._state.control is not self:
                return
            self.opened = True
            known = patch, targets, outer.provenance
            inner = self._engine.acquire(*known, self, shared=False, extensions=outer.extensions)
            self._inner = inner
        moves = Moves()
        self._engine.advance(inner, moves, self)
        self._engine.rebind(moves)

    def close(self, *, finished: bool) -> None:
        """Take the inner changes back, and report on them if the body ran to its end."""
        with self._engine.journal.lock:
            inner = self._inner
            if inner is None:
                return
            report = self._outcome(inner)
            notes = self._engine.release([inner], self)
            self._inner = None
            if finished and self._application.in_force:
                self._state.status, reason = report
                self._state.reason = "; ".join([reason, *notes])
                for state in inner.states:
                    for slot in state.slots:
                        self._state.wrote(slot)
        self._engine.announce(self._application)

    def catch_up(self, name: str, module: ModuleType) -> None:
        """Skip the change where the body ran without it."""
        with self._engine.journal.lock:
            if self.opened or self._state.control is not self:
                return
            self._state.withdraw()
            self._state.status = SKIPPED
            self._state.reason = f"{name} is already imported; apply the patch before that, at the start of the program"
        self._engine.announce(self._application)

    def withdraw(self) -> list[str]:
        """End it for good, also where it is open."""
        self._engine.watch.leave(self._state.target.module, self)
        self._inner = None
        return self._engine.release(self._engine.held_by(self), self)

    def completed(self, application: Application) -> None:
        """Nothing is left to do: the holders of the patch are called at the end."""

    def failed(self, application: Application) -> None:
        """Fail the whole patch; its holders are called."""
        assert application.error is not None
        self._engine.fail(self._application, self._state, application.error)

    def _outcome(self, inner: Application) -> tuple[str, str]:
        """Return the status of the change and its reason, from those of the inner changes."""
        name = self._state.target.module
        left = []
        for state in inner.states:
            if state.status in (PENDING, SKIPPED):
                reason = state.reason or f"{state.target.module} was not imported during that time"
                left.append(f"{state.change.phrase(state.target)}: {reason}")
        if len(left) == len(inner.states):
            return SKIPPED, "; ".join(left)
        return APPLIED, "; ".join([f"applied while {name} was imported", *left])
