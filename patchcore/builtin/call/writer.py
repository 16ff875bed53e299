"""Runs functions that patch by hand, and enters every edit that they make in the journal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from patchcore.builtin.call.change import Call
from patchcore.builtin.call.snapshot import Edit, Snapshot
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.engine import Engine
from patchcore.engine.journal import Layer
from patchcore.engine.rebinding import Moves
from patchcore.objects.modules import ABSENT
from patchcore.report import APPLIED, SKIPPED

__all__ = ["CallWriter"]


class CallWriter(Writer):
    """Runs the function of a :class:`~patchcore.Call`, and enters every edit it makes in the journal."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._journal = engine.journal

    def write(self, context: WriteContext) -> None:
        application, state, module = context.application, context.state, context.module
        change = state.change
        assert isinstance(change, Call)
        with self._journal.lock:
            if not application.in_force or state.written_in is module:
                return
            state.written_in = module
        roots = dict.fromkeys((state.target.root, *change.roots))
        snapshot = Snapshot(*roots, tables=application.extensions.tables)
        state.undo = lambda: self._undo(snapshot)
        done = False
        try:
            with contextlib.ExitStack() as imports:
                imports.enter_context(self._engine.telling(snapshot))
                imports.enter_context(self._engine.watch.watching_roots(roots, application))
                change.run(module)
            done = True
        finally:
            with self._journal.lock:
                if done and application.in_force:
                    for edit in self._edits(snapshot):
                        self._adopt(application, state, change, edit, context.moves)
                else:
                    self._undo(snapshot)
                state.undo = None
        with self._journal.lock:
            if application.in_force:
                state.status = APPLIED
                if not state.slots:
                    state.status, state.reason = SKIPPED, "the function changed nothing"

    def _edits(self, snapshot: Snapshot) -> Iterator[Edit]:
        """Return the edits of the function, without those of patches of the modules that it imported."""
        return (edit for edit in snapshot.edits() if not self._journal.wrote(edit.slot, edit.after))

    def _undo(self, snapshot: Snapshot) -> None:
        for edit in self._edits(snapshot):
            edit.slot.write(edit.before)

    def _adopt(self, application: Application, state: ChangeState, change: Call, edit: Edit, moves: Moves) -> None:
        layer = Layer(application, change, edit.after, edit.before)
        record = self._journal.adopt(edit.slot, layer, edit.before)
        state.wrote(edit.slot.name)
        if edit.before is not ABSENT and edit.after is not ABSENT:
            moves.add(self._engine.rebinder.moved(state, record, edit.before))
