"""Writers put changes in force: one class for each kind of change.

The engine looks up the writer by the class of the change. The core has :class:`SlotWriter`, for changes of a slot.
Plugins add writers with the hook ``register_writers``.
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


#: Called with ``change``, ``slot``, ``below`` and ``product``: the change is about to write ``product`` to ``slot``,
#: where a lookup finds ``below`` now. A guard that raises fails the patch.
Guard = Callable[[SlotChange, Slot, Any, Any], None]


class Host(Protocol):
    """The part of the engine that :class:`SlotWriter` uses; a writer of a plugin may use the whole engine."""

    journal: Journal
    rebinder: Rebinder

    def admit(self, change: SlotChange, slot: Slot, below: Any, product: Any) -> None:
        """Call every guard; see :data:`Guard`."""

    def defers(self, application: Application, state: ChangeState) -> bool:
        """Return true if the replacement's module is being imported right now, so that the change has to wait."""


class Writer(Protocol):
    """Puts changes of one kind in force."""

    def write(self, application: Application, state: ChangeState, module: Optional[ModuleType], moves: Moves) -> None:
        """Put one change in force and note that in ``state``. An exception fails the patch.

        Args:
            application: the patch that the change belongs to. Another thread may revert it at any time: check
                ``application.in_force`` under the journal's lock, and write nothing if it is false.
            state: the change, its status, and the slots that were written for it.
            module: the module of the change's target, imported; ``None`` if the change does not wait for that import.
            moves: collects the written slots; names that hold an old value of such a slot are bound to the new value.
        """


#: Makes the writer of one kind of change for the :class:`~patchcore.engine.engine.Engine` of the process.
WriterFactory = Callable[[Any], Writer]

#: Writer factories by class of change. Classes and factories may be targets, which are imported when they are needed.
Writers = Mapping[Union[type[Change], str], Union[WriterFactory, str]]


class SlotWriter:
    """Writes a :class:`~patchcore.declare.changes.SlotChange` to its slot.

    The product is built without a lock, because code of others runs then. It is written if the slot has not changed
    meanwhile; otherwise it is built again.
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
        """Write the change; return false if the slot has changed while the product was built."""
        slot = change.find_slot(state.target, module)
        own = self._rebinder.catch_up(slot, moves)
        below = slot.inherited() if own is ABSENT else own
        record = self._journal.find(slot)
        carrier = product = None
        # most slots are changed by one patch, and are no alias of a slot that another one has changed
        if record is not None or self._journal.makers(below):
            carrier = self._journal.carrier(below, application, change, record)
            if carrier is None:
                self._refuse_conflict(application, slot, record, own)
        if carrier is None:
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

    def _carry(self, carrier: Record, slot: Slot, own: Any, state: ChangeState) -> None:
        if carrier.slot.identity == slot.identity:
            return
        state.reason = f"through {carrier.slot.name}"
        # A slot that already follows another record is left alone: on revert it gets what the slot of that record gets.
        if own is not ABSENT and not self._journal.looks_after(slot):
            if isinstance(slot, ClassSlot):
                slot = StaticSlot.of(slot.owner, slot.key, slot.name, own)
            self._journal.follow(carrier, slot)

    def _refuse_conflict(self, application: Application, slot: Slot, record: Optional[Record], own: Any) -> None:
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


#: The writers of the core by class of change. A subclass has the writer of its nearest base class.
WRITERS: Writers = {SlotChange: SlotWriter}


def class_key(kind: type[Change]) -> str:
    """Return the key of a class of change in the table of writers: its target, ``package.module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def writer_of(kind: type[Change], writers: Mapping[str, Union[WriterFactory, str]]) -> WriterFactory:
    """Return the factory of the writer for a class of change.

    Args:
        kind: the class.
        writers: the known factories, by :func:`class_key`.

    Raises:
        DeclarationError: no loaded plugin has a writer for this class or a base class of it.
    """
    found = next((writers[key] for key in map(class_key, kind.__mro__) if key in writers), None)
    if found is None:
        raise DeclarationError(
            f"no loaded plugin has a writer for changes of the class {kind.__module__}.{kind.__qualname__}; "
            "load the plugin that defines the class, or register a writer with the hook register_writers"
        )
    factory: WriterFactory = resolve(Target.parse(found)) if isinstance(found, str) else found
    return factory
