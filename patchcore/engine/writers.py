"""Writers: how a change of each kind is put in force by the engine; those of imports are in modules of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional, Protocol

from patchcore.builtin.callers.callers import look_of, remark
from patchcore.declare.changes import Call, Skip, SlotChange
from patchcore.declare.target import ABSENT, ClassSlot, Slot, same_value
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.journal import Layer, Record
from patchcore.engine.rebinding import Moves
from patchcore.engine.references import StaticSlot
from patchcore.engine.snapshot import Edit, Snapshot
from patchcore.errors import ConflictError, DeclarationError, conflict_message
from patchcore.objects.binding import wrapped_callable
from patchcore.objects.signatures import CALLED_AS_DECLARED, alike, misfit
from patchcore.report import APPLIED, SKIPPED

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["CallWriter", "SlotWriter", "Writer"]


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


class SlotWriter:
    """Writes a :class:`~patchcore.declare.changes.SlotChange` to its slot.

    A product is made first, with no lock held, and then written if nothing moved meanwhile, else made again.
    """

    def __init__(self, engine: Engine) -> None:
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
                _refuse_misfit(change, slot, below, product)
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
                look = look_of(below) if change.calls_original else None
                if look is not None:
                    state.reason = remark(slot.name, look)
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


def _refuse_misfit(change: SlotChange, slot: Slot, below: Any, product: Any) -> None:
    """Raise where what is to be put in a slot cannot take the calls that the target gets."""
    if not issubclass(type(below), _CHECKED) or isinstance(product, Skip):
        return
    callee = change.callee(product)
    if callee is None or (callee[0] is product and alike(below, product)):
        return
    form = type(below) if issubclass(type(below), _FORMS) else None
    if form is not (type(product) if issubclass(type(product), _FORMS) else None):
        return  # who gives it another form has changed what its arguments are
    original, taker = wrapped_callable(below), wrapped_callable(callee[0])
    bound = isinstance(slot, ClassSlot) and form is not staticmethod
    why = misfit(original, taker, bound=bound, before=callee[1])
    if why is not None:
        name = getattr(taker, "__qualname__", repr(taker))
        raise DeclarationError(
            f"{name} cannot take every call of {slot.name}: {why}; give it the parameters of the target, "
            "or *args and **kwargs"
        )


#: Objects that say how what is in them is called.
_FORMS = (staticmethod, classmethod, property)
#: What is asked how it is called.
_CHECKED = (*CALLED_AS_DECLARED, *_FORMS)


class CallWriter:
    """Runs the function of a :class:`~patchcore.declare.changes.Call`, and enters every edit it makes in the journal."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._journal = engine.journal

    def write(self, application: Application, state: ChangeState, module: Optional[ModuleType], moves: Moves) -> None:
        change = state.change
        assert isinstance(change, Call)
        with self._journal.lock:
            if not application.in_force or state.written_in is module:
                return
            state.written_in = module
        roots = dict.fromkeys((state.target.root, *change.roots))
        snapshot = Snapshot(*roots)
        state.undo = lambda: self._undo(snapshot)
        done = False
        try:
            with contextlib.ExitStack() as imports:
                imports.enter_context(self._engine.taking_in(snapshot))
                imports.enter_context(self._engine.watch.watching_roots(roots, application))
                change.run(module)
            done = True
        finally:
            with self._journal.lock:
                if done and application.in_force:
                    for edit in self._edits(snapshot):
                        self._adopt(application, state, change, edit, moves)
                else:
                    self._undo(snapshot)
                state.undo = None
        with self._journal.lock:
            if application.in_force:
                state.status = APPLIED
                if not state.slots:
                    state.status, state.reason = SKIPPED, "the function changed nothing"

    def _edits(self, snapshot: Snapshot) -> Iterator[Edit]:
        """What the function has changed, and not a patch of a module that it imported."""
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
