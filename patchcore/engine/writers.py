"""Writers make the edits of changes: one class for each kind of change.

The engine looks up the writer by the class of the change, because changes are plain declarations. The core has
:class:`SlotWriter`, for changes of a slot: it finds the slot of the target, lets the change build the product on top of
the present value, calls the guards, pushes a layer in the journal and adds the move that rebinding needs. Plugins add
writers with the hook ``register_writers``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, Callable, Optional, Protocol, Union

from patchcore.declare.changes import Change, Skip, SlotChange, resolve
from patchcore.declare.slots import BodySlot, ClassSlot, Slot, find_slot, same_value
from patchcore.declare.target import Target
from patchcore.engine import references
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.journal import Journal, Layer, Record, describe
from patchcore.engine.rebinding import Moves, Rebinder
from patchcore.engine.references import StaticSlot
from patchcore.errors import ConflictError, DeclarationError, TargetError, TargetNotFound, conflict_message
from patchcore.objects.binding import wrapped_callable
from patchcore.objects.bodies import body_of, can_be_written
from patchcore.objects.descriptors import FORMS
from patchcore.objects.extensions import Extensions, using
from patchcore.objects.modules import ABSENT, executed_module
from patchcore.report import APPLIED, SKIPPED

__all__ = ["WRITERS", "Guard", "Host", "SlotWriter", "WriterFactory", "Writers", "class_key", "writer_of"]


#: Called with ``change``, ``slot``, ``below`` and ``product``: the change is about to write ``product`` to ``slot``,
#: where a lookup finds ``below`` now. A guard that raises fails the patch. A text that it returns is in the report, as
#: the reason of the change that is applied.
Guard = Callable[[SlotChange, Slot, Any, Any], Optional[str]]


class Host(Protocol):
    """The part of the engine that :class:`SlotWriter` uses."""

    journal: Journal
    rebinder: Rebinder

    def defers(self, application: Application, state: ChangeState) -> bool:
        """True if the replacement's module is being imported right now, so that the change has to wait."""


#: Makes the writer of one kind of change for the :class:`~patchcore.engine.engine.Engine` of the process.
WriterFactory = Callable[[Any], Writer]

#: Writer factories by class of change. Classes and factories may be targets, which are imported when they are needed.
Writers = Mapping[Union[type[Change], str], Union[WriterFactory, str]]


class SlotWriter(Writer):
    """Writes a :class:`~patchcore.declare.changes.SlotChange` to its slot.

    The product is built without a lock, because code of others runs then. It is written if the slot has not changed
    meanwhile; otherwise it is built again.
    """

    def __init__(self, engine: Host) -> None:
        super().__init__(engine)
        self._journal = engine.journal
        self._rebinder = engine.rebinder

    def write(self, context: WriteContext) -> None:
        change, module = context.state.change, context.module
        assert isinstance(change, SlotChange)
        assert module is not None
        while not self._write_once(context.application, context.state, change, module, context.moves):
            pass

    def _write_once(
        self,
        application: Application,
        state: ChangeState,
        change: SlotChange,
        module: ModuleType,
        moves: Moves,
        *,
        by_name: bool = False,
    ) -> bool:
        """Write the change; return false if the slot has changed while the product was built.

        ``by_name`` is true where the product turned out to have no body.
        """
        extensions = application.extensions
        place = change.find_slot(state.target, module)
        own = self._rebinder.catch_up(place, moves)
        slot, reason = place, ""
        kept: Sequence[Slot] = ()
        if change.writes_bodies and not by_name:
            try:
                slot, reason, kept = self._slot(place, own, state.target, change)
            except Exception:
                # The callables of the change are looked at here. That fails if the module that defines one is still
                # being imported: it may import the target's library itself, at its top. The change then waits for it.
                if self._engine.defers(application, state):
                    return True
                raise
        if slot is not place:
            kept = [*kept, *_listed(application.patch.keep, slot.owner, kept)]
        below = slot.lookup() if slot is not place else place.inherited() if own is ABSENT else own
        record = self._journal.find(slot)
        carrier = product = None
        noted: list[str] = []
        # most slots are changed by one patch, and are no alias of a slot that another one has changed
        if record is not None or self._journal.behind(below):
            carrier = self._journal.carrier(below, application, change, record)
            if carrier is None:
                self._refuse_conflict(application, slot, record, own)
        if carrier is None:
            try:
                product = change.build(below, slot)
                if product is NotImplemented:
                    return self._write_once(application, state, change, module, moves, by_name=True)
                found = [guard(change, slot, below, product) for guard in extensions.guards]
                noted = [note for note in found if isinstance(note, str)]
            except Exception:
                if self._engine.defers(application, state):
                    return True
                raise
        with self._journal.lock:
            # Anything may have happened while the product was built: a revert, the same write in another thread, a
            # write of another patch. Only in the last case there is something left to do, on top of that patch.
            if not application.in_force or state.written_in is module:
                return True
            if not same_value(slot.lookup(), below) or (slot is not place and place.read() is not own):
                return False
            state.written_in = module
            state.status, state.reason = APPLIED, "; ".join(filter(None, [reason, slot.remark(), *noted]))
            state.wrote(slot.name)
            if carrier is not None:
                self._carry(carrier, slot, own, state)
            elif type(product) is Skip:
                state.status, state.reason = SKIPPED, product.reason
            else:
                build = None if change.adds else functools.partial(_built_again, change, extensions)
                record = self._journal.push(slot, Layer(application, change, product, below, build))
                if slot is place:
                    move = self._rebinder.moved(state, record, below)
                    moves.add(move)
                    if change.same_name and not move.home:  # at home, the search finds all names
                        for name in references.same_names(slot, below):
                            self._rebinder.bind_name(state, record, name)
                else:  # all holders of the function follow its body
                    for name in kept:  # names through which a callable of the change calls the original
                        self._rebinder.keep_name(application, state, record, name)
                for companion, build_companion in change.companions(module):
                    found = companion.lookup()
                    value = build_companion(found, companion)
                    self._journal.push(companion, Layer(application, change, value, found, build_companion))
                    state.wrote(companion.name)
        return True

    def _slot(self, place: Slot, own: Any, target: Target, change: SlotChange) -> tuple[Slot, str, Sequence[Slot]]:
        """Return the slot for a change that writes bodies, the reason if that is a name, and names of the original.

        The body of a Python function at its own home is written. A change of any other target writes the name:
        functions of C, classes, callable objects and inherited values have no body, and at an alias, other code may
        mean the function itself.

        Args:
            place: the slot of the target.
            own: the raw value that its owner holds.
            target: of the change, with its module.
            change: the change to write.

        Raises:
            TargetError: the change has to write a body, and cannot.
        """
        function = wrapped_callable(own) if type(own) in FORMS else own
        demanded = change.everywhere
        why, reason = "", ""
        if type(function) is FunctionType and (self._journal.makers(own) or self._journal.find(place) is not None):
            why = "another patch has put something in its place"
        elif type(function) is not FunctionType or not (place.in_class or isinstance(place.owner, ModuleType)):
            why = f"it is no Python function, but {describe(own)}"
        elif change.factory is not None and type(own) not in (FunctionType, staticmethod):
            return place, "", ()  # the factory gets the property or class method itself
        elif not references.is_home(target, function):
            why = f"that is a name of {function.__module__}:{function.__qualname__}; target that"
        elif not can_be_written(function):
            why = f"{function.__qualname__} has a free variable that no source can name"
        else:
            kept = _kept(change, function, place)
            unnamed = [name for name in kept if isinstance(name, str)]
            if not kept or not (unnamed or demanded):
                with self._journal.lock:  # no other thread writes a body meanwhile
                    body = body_of(function)
                return BodySlot(place, own, body), "", [name for name in kept if isinstance(name, Slot)]
            names = " and ".join([name if isinstance(name, str) else name.name for name in kept])
            reason = f"by name: the original is kept as {names}"
            why = (
                f"the replacement keeps the original as {names}, and would call itself; "
                f"write Wrap({str(target)!r}, wrapper), whose wrapper gets the original"
            )
        if demanded:
            raise TargetError(f"everywhere=True cannot write the body of {place.name}: {why}")
        return place, reason, ()

    def _carry(self, carrier: Record, slot: Slot, own: Any, state: ChangeState) -> None:
        if carrier.slot.identity == slot.identity:
            return
        state.reason = f"through {carrier.slot.name}"
        if isinstance(carrier.slot, BodySlot):
            return
        # A slot that already follows another record is left alone: on revert it gets what the slot of that record gets.
        if own is not ABSENT and not self._journal.looks_after(slot):
            if isinstance(slot, ClassSlot):
                slot = StaticSlot.of(slot.owner, slot.key, slot.name, own)
            self._journal.follow(carrier, slot)

    def _refuse_conflict(self, application: Application, slot: Slot, record: Optional[Record], own: Any) -> None:
        layers = [] if record is None else record.layers
        through = ""
        if record is None and own is not ABSENT:
            for made, layer in self._journal.behind(own):
                if not self._rebinder.is_own(slot, own, layer.change):
                    layers, record = made.layers, made
        if record is not None and record.slot.name != slot.name:
            through = f" (reached through {record.slot.name})"
        for layer in layers:
            other = layer.owner
            if other is None or other is application or application.patch.stacks_with(other.patch):
                continue
            if layer.change.shares_slots:
                continue
            if any(holder in application.holders for holder in other.holders):
                raise ConflictError(conflict_message(slot.name + through, other, application))


def _built_again(change: SlotChange, extensions: Extensions, below: Any, slot: Slot) -> Any:
    """Return the product that ``change`` builds for ``slot`` with the extensions of its application."""
    with using(extensions):
        return change.build(below, slot)


def _kept(change: SlotChange, function: FunctionType, place: Slot) -> Sequence[Union[Slot, str]]:
    """Return the places where the callables of a change keep the original, without the original's own name."""
    found = (name for source in change.calls for name in references.own_names(source, function))
    return [name for name in found if isinstance(name, str) or name.identity != place.identity]


def _listed(names: Iterable[str], function: FunctionType, known: Iterable[Slot]) -> Iterator[Slot]:
    """Yield the slots of ``Patch(keep=...)`` that hold ``function``, but for those that are ``known``."""
    seen = {slot.name for slot in known}
    for target in [Target.parse(name) for name in names if name not in seen]:
        module = executed_module(target.module)
        try:
            slot = None if module is None else find_slot(target, module)
        except (TargetError, TargetNotFound):
            continue
        if slot is not None and references.means(slot.read(), function):
            yield slot


#: The writers of the core by class of change. A subclass has the writer of its nearest base class.
WRITERS: Writers = {SlotChange: SlotWriter}


def class_key(kind: type[Change]) -> str:
    """Return the key of a class of change in the table of writers: its target, ``package.module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def writer_of(kind: type[Change], writers: Mapping[str, Union[WriterFactory, str]]) -> WriterFactory:
    """Return the factory of the writer for a class of change; the core's own writers cannot be replaced.

    Args:
        kind: the class.
        writers: the factories that plugins bring, by :func:`class_key`.

    Raises:
        DeclarationError: no loaded plugin has a writer for this class or a base class of it.
    """
    known = {**writers, **{class_key(each): factory for each, factory in WRITERS.items() if isinstance(each, type)}}
    found = next((known[key] for key in map(class_key, kind.__mro__) if key in known), None)
    if found is None:
        raise DeclarationError(
            f"no loaded plugin has a writer for changes of the class {kind.__module__}.{kind.__qualname__}; "
            "load the plugin that defines the class, or register a writer with the hook register_writers"
        )
    factory: WriterFactory = resolve(Target.parse(found)) if isinstance(found, str) else found
    return factory
