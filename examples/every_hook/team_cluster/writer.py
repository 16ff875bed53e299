"""Puts changes of the kind ``SetEnvironment`` in force."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Optional

from patchcore.plugin import APPLIED, SKIPPED, Application, ChangeState, Host, ItemSlot, Layer, Moves
from team_cluster.environment import SetEnvironment


class EnvironmentWriter:
    """Writes variables of the environment through the journal, which restores them exactly."""

    def __init__(self, engine: Host) -> None:
        self._journal = engine.journal

    def write(self, application: Application, state: ChangeState, module: Optional[ModuleType], moves: Moves) -> None:
        change = state.change
        assert isinstance(change, SetEnvironment)
        slot = ItemSlot(os.environ, change.name, str(change.target))
        with self._journal.lock:
            if not application.in_force or not state.is_open:  # another thread has reverted the patch, or was faster
                return
            if change.before in sys.modules:
                state.status, state.reason = SKIPPED, f"{change.before} is imported already"
                return
            state.status = APPLIED
            state.wrote(slot.name)
            build = lambda below, slot: change.value  # noqa: E731  the value, whatever is below it
            self._journal.push(slot, Layer(application, change, change.value, slot.lookup(), build))
