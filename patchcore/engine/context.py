"""The base class of writers, and their argument: one change, with the methods that put it in force.

A writer of a plugin needs nothing else of the engine. It calls no code of others while the journal is locked, as the
methods of :class:`WriteContext` lock it only while they write.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable, Optional

from patchcore.declare.changes import Change
from patchcore.declare.slots import Slot
from patchcore.declare.target import Target
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.journal import Journal, Layer
from patchcore.engine.rebinding import Moves, Rebinder
from patchcore.report import APPLIED, SKIPPED

__all__ = ["WriteContext", "Writer"]


class WriteContext:
    """One change that a writer is to put in force, with the methods to do that.

    A writer of a plugin uses :attr:`change`, :attr:`target`, :attr:`module`, :meth:`write`, :meth:`begin` and
    :meth:`skip`. The other attributes are the engine's own, for the writers that ship with patchcore.

    Args:
        journal: of the process.
        rebinder: of the process.
        application: the patch that the change belongs to. Another thread may revert it at any time: check
            ``application.in_force`` under the journal's lock, and write nothing if it is false.
        state: the change, its status, and the slots that were written for it.
        module: the module of the change's target, imported; ``None`` if the change does not wait for that import.
        moves: collects the written slots; names that hold an old value of such a slot are bound to the new value.

    Examples:
        A writer that sets an environment variable; :class:`Writer` shows it in use.

        >>> import os
        >>> from patchcore.plugin import ItemSlot, Writer
        >>> class VariableWriter(Writer):
        ...     def write(self, context):
        ...         change = context.change
        ...         context.write(ItemSlot(os.environ, change.name, str(context.target)), change.value)
    """

    __slots__ = ("_begun", "application", "journal", "module", "moves", "rebinder", "state")

    def __init__(
        self,
        journal: Journal,
        rebinder: Rebinder,
        application: Application,
        state: ChangeState,
        module: Optional[ModuleType],
        moves: Moves,
    ) -> None:
        self.journal = journal
        self.rebinder = rebinder
        self.application = application
        self.state = state
        self.module = module
        self.moves = moves
        self._begun = False

    @property
    def change(self) -> Change:
        """The change to put in force."""
        return self.state.change

    @property
    def target(self) -> Target:
        """The target of the change."""
        return self.state.target

    def begin(self) -> bool:
        """Mark the change as applied, for a writer that writes no slot.

        Returns:
            False if the writer must do nothing: another thread has reverted the patch, or has put the change in force.
        """
        with self.journal.lock:
            if not self._begun:
                # A module that was imported again, or reloaded, gets the change once more: `written_in` is the earlier
                # one then, or was set back.
                state = self.state
                is_new = state.is_open if self.module is None else state.written_in is not self.module
                if not self.application.in_force or not is_new:
                    return False
                state.written_in, state.status = self.module, APPLIED
                self._begun = True
            return self.application.in_force

    def write(
        self, slot: Slot, value: Any = None, *, build: Optional[Callable[[Any, Slot], Any]] = None, rebind: bool = False
    ) -> bool:
        """Write a value to ``slot``; revert puts the present value back. A writer may write several slots.

        Args:
            slot: the place.
            value: the value, if it does not depend on the values of other patches there.
            build: instead of ``value``: called with the present value and the slot, returns the value to write. It is
                called again when patches below change, with the journal locked, so it must call no code of others.
            rebind: bind names in all modules that hold the present value to the new one.

        Returns:
            False if nothing is written, see :meth:`begin`.
        """
        make = build or (lambda below, slot: value)
        with self.journal.lock:
            if not self.begin():
                return False
            self.state.wrote(slot.name)
            below = slot.lookup()
            record = self.journal.push(slot, Layer(self.application, self.change, make(below, slot), below, make))
            if rebind:
                self.moves.add(self.rebinder.moved(self.state, record, below))
        return True

    def skip(self, reason: str) -> None:
        """Mark the change as skipped; ``reason`` stands in the report."""
        with self.journal.lock:
            if self.begin():
                self.state.status, self.state.reason = SKIPPED, reason


class Writer:
    """Puts changes of one kind in force: the base class of writers. One object serves all changes of the process.

    Args:
        engine: of the process, for the writers that ship with patchcore.

    Examples:
        >>> import os
        >>> import patchcore as pc
        >>> from patchcore.plugin import Change, ItemSlot, Plugins, Writer
        >>> class SetVariable(Change):
        ...     waits = False
        >>> class VariableWriter(Writer):
        ...     def write(self, context):
        ...         slot = ItemSlot(os.environ, context.change.name, str(context.target))
        ...         context.write(slot, context.change.value)
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def register_writers(self):
        ...         return {SetVariable: VariableWriter}
        >>> change = SetVariable(target=pc.Target.parse('os:environ["SHOP"]'), name="SHOP", value="1")
        >>> plugins = Plugins(discover=False)
        >>> plugins.add(Plugin(), "demo")
        >>> with pc.Patcher([pc.Patch("demo.shop", changes=change)], plugins=plugins):
        ...     os.environ["SHOP"]
        '1'
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def write(self, context: WriteContext) -> None:
        """Put one change in force. An exception fails its patch.

        Args:
            context: the change, and the methods that write.
        """
        raise NotImplementedError
