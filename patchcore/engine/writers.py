"""Writers: how the engine puts a change of each kind in force.

The table of writers is by class of change. The core has one, for changes of a slot; plugins add others by the hook
``register_writers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable, Optional, Protocol, Union

from patchcore.declare.changes import Change, Skip, SlotChange, resolve
from patchcore.declare.slots import ClassSlot, Slot, same_value
from patchcore.declare.target import Target
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.journal import Journal, Layer, Record
from patchcore.engine.rebinding import Moves, Rebinder
from patchcore.engine.references import StaticSlot
from patchcore.errors import ConflictError, DeclarationError, conflict_message
from patchcore.objects.modules import ABSENT
from patchcore.report import APPLIED, SKIPPED

__all__ = ["WRITERS", "Guard", "Host", "SlotWriter", "Writer", "WriterFactory", "Writers", "class_key", "writer_of"]


#: Asked before ``product`` is written to ``slot``, where a lookup finds ``below`` now, for ``change``; what it raises
#: fails the patch.
Guard = Callable[[SlotChange, Slot, Any, Any], None]


class Host(Protocol):
    """What a writer of slots uses of the engine; writers of plugins may use all of it."""

    journal: Journal
    rebinder: Rebinder

    def admit(self, change: SlotChange, slot: Slot, below: Any, product: Any) -> None:
        """Ask the guards; see :data:`Guard`."""

    def defers(self, application: Application, state: ChangeState) -> bool:
        """Tell whether the replacement is being imported right now, so that the change has to wait for it."""


class Writer(Protocol):
    """Puts changes of one kind in force."""

    def write(self, application: Application, state: ChangeState, module: Optional[ModuleType], moves: Moves) -> None:
        """Put one change in force, and say so in ``state``; what it raises fails the patch.

        Args:
            application: the patch; it may end meanwhile, in another thread, and then nothing is to be written.
            state: the change.
            module: the module of its target, executed; ``None`` for a change that does not wait for it.
            moves: gets what was written to slots that others hold by value.
        """


#: Makes the writer of one kind of change for the :class:`~patchcore.engine.engine.Engine` of the process.
WriterFactory = Callable[[Any], Writer]

#: Factories by the class of change, each a class and a callable or the targets of them, which are imported when needed.
Writers = Mapping[Union[type[Change], str], Union[WriterFactory, str]]


class SlotWriter:
    """Writes a :class:`~patchcore.declare.changes.SlotChange` to its slot.

    A product is made first, with no lock held, and then written if nothing moved meanwhile, else made again.
    """

    def __init__(self, engine: Host) -> None:
        self._engine = engine
        self._journal = engine.journal
        self._rebinder = engine.rebinder

    def write(self, application: Application, state: ChangeState, module: Optional[ModuleType], moves: Moves) -> None:
        change = state.change
        assert isinstance(change, SlotChange)
        assert module is not None
        while not self._write_once(application, state, change, module, moves):
            pass

    def _write_once(
        self, application: Application, state: ChangeState, change: SlotChange, module: ModuleType, moves: Moves
    ) -> bool:
        """Write the change; return False when the slot moved while the product was made."""
        slot = change.find_slot(state.target, module)
        self._rebinder.catch_up(slot, moves)
        own, below = slot.read(), slot.lookup()
        carrier = self._carrier(application, change, slot, below)
        product = None
        if carrier is None:
            self._refuse_conflict(application, slot, own)
            try:
                product = change.build(below, slot)
                self._engine.admit(change, slot, below, product)
            except Exception:
                if self._engine.defers(application, state):
                    return True
                raise
        with self._journal.lock:
            if not application.in_force or state.written_in is module:
                return True
            if not same_value(slot.lookup(), below):
                return False
            state.written_in = module
            state.status, state.reason = APPLIED, slot.remark()
            state.wrote(slot.name)
            if carrier is not None:
                self._carry(carrier, slot, own, state)
            elif isinstance(product, Skip):
                state.status, state.reason = SKIPPED, product.reason
            else:
                build = None if change.adds else change.build
                record = self._journal.push(slot, Layer(application, change, product, below, build))
                moves.add(self._rebinder.moved(state, record, below))
                for companion, build_companion in change.companions(module):
                    found = companion.lookup()
                    value = build_companion(found, companion)
                    self._journal.push(companion, Layer(application, change, value, found, build_companion))
                    state.wrote(companion.name)
        return True

    def _carrier(self, application: Application, change: SlotChange, slot: Slot, below: Any) -> Optional[Record]:
        """The record through which ``slot`` carries this very change already: a re-export, or what a base class has."""
        record = self._journal.find(slot)
        if record is not None and any(e.owner is application and e.change is change for e in record.layers):
            return record
        return self._journal.carrier(below, application, change)

    def _carry(self, carrier: Record, slot: Slot, own: Any, state: ChangeState) -> None:
        if carrier.slot.identity == slot.identity:
            return
        state.reason = f"through {carrier.slot.name}"
        # one that follows another slot, which has got the same, is to go back to what that one held
        if own is not ABSENT and not self._journal.looks_after(slot):
            if isinstance(slot, ClassSlot):
                slot = StaticSlot.of(slot.owner, slot.key, slot.name, own)
            self._journal.follow(carrier, slot)

    def _refuse_conflict(self, application: Application, slot: Slot, own: Any) -> None:
        record = self._journal.find(slot)
        layers = [] if record is None else record.layers
        through = ""
        if record is None and own is not ABSENT:
            for made, layer in self._journal.makers(own):
                if not self._rebinder.is_own(slot, own, layer.change):
                    layers, through = made.layers, f" (reached through {made.slot.name})"
        for layer in layers:
            other = layer.owner
            if other is None or other is application or application.patch.stacks_with(other.patch):
                continue
            if any(holder in application.holders for holder in other.holders):
                raise ConflictError(conflict_message(slot.name + through, other, application))


#: The writers of the core, by class of change; a subclass has that of its nearest base.
WRITERS: Writers = {SlotChange: SlotWriter}


def class_key(kind: type[Change]) -> str:
    """Return the target of a class of change, by which its writer is looked up."""
    return f"{kind.__module__}:{kind.__qualname__}"


def writer_of(kind: type[Change], writers: Mapping[str, Union[WriterFactory, str]]) -> WriterFactory:
    """Return what makes the writer of a kind of change.

    Args:
        kind: class of the change.
        writers: what there is, by :func:`class_key`.

    Raises:
        DeclarationError: no plugin that is loaded puts such changes in force.
    """
    found = next((writers[key] for key in map(class_key, kind.__mro__) if key in writers), None)
    if found is None:
        raise DeclarationError(
            f"no loaded plugin puts changes of the class {kind.__module__}.{kind.__qualname__} in force; load the plugin "
            "that brings it, or give it a writer with the hook register_writers"
        )
    factory: WriterFactory = resolve(Target.parse(found)) if isinstance(found, str) else found
    return factory
