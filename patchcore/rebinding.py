"""Rebinding: names that hold a patched object by value go where its slot goes, and come back with it.

:mod:`patchcore.references` finds the names, :class:`Rebinder` decides which of them to touch. A name is left alone when
it is looked after already, when the replacement itself reads the original there, or when it holds a replacement as its
own: where that is defined, or where somebody imported it from there and not from the patched slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Optional

from patchcore import references
from patchcore.application import Application, ChangeState
from patchcore.binding import has_identity, reference
from patchcore.changes import Call, Change, Register, SlotChange
from patchcore.journal import Journal, Layer, Record, Retired
from patchcore.modules import executed_module, loaded_modules, namespace
from patchcore.target import ABSENT, ClassSlot, NamespaceSlot, Slot, Target, find_slot

__all__ = ["Move", "Moves", "Rebinder"]

Modules = Mapping[str, ModuleType]
_Identity = tuple[int, str, Any]


class Move(NamedTuple):
    """A slot was written: by-value references to what it held are to follow.

    Args:
        state: the change that wrote it.
        record: the slot's record.
        old: what a by-value reference to the slot held.
        home: whether the slot is a name of ``old`` itself, and not a name that some module gave it.
        first: whether no slot held the replacement because of a patch before.
        makers: where ``old`` is itself a replacement: the records and layers that put it in slots.
    """

    state: ChangeState
    record: Record
    old: Any
    home: bool
    first: bool
    makers: tuple[tuple[Record, Layer], ...]

    @property
    def followed(self) -> bool:
        """True when references are to follow now."""
        return self.home and bool(self.record.layers) and self.record.by_value is not ABSENT

    def goes_on(self, record: Optional[Record]) -> bool:
        """Tell whether what follows ``record`` is to follow this move: its slot is an alias that was patched."""
        return record is not self.record and any(made is record for made, _ in self.makers)


class Moves:
    """What one apply, or one import, has written."""

    def __init__(self) -> None:
        self._by_old: dict[int, list[Move]] = {}

    def __iter__(self) -> Iterator[Move]:
        return (move for moves in self._by_old.values() for move in moves)

    def add(self, move: Move) -> None:
        """Remember a move."""
        self._by_old.setdefault(id(move.old), []).append(move)

    def of(self, old: Any) -> Optional[Move]:
        """Return the latest move that references to ``old`` are to follow."""
        return next((move for move in reversed(self._by_old.get(id(old), ())) if move.followed), None)


class Rebinder:
    """Moves the by-value references to slots of ``journal``."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # id(replacement) -> the replacement, and the slots that held it before any patched slot did
        self._homes: dict[int, tuple[Any, dict[_Identity, Slot]]] = {}

    def moved(self, state: ChangeState, record: Record, below: Any) -> Move:
        """Return the move for a change that has just been laid over ``below``."""
        old, slot = reference(below), record.slot
        makers = [m for m in self._journal.makers(old) if not self.is_own(slot, old, m[1].change)]
        if not makers:
            home = has_identity(old) and references.is_home(state.target, old)
        else:
            # a product is at home where it was put, and in the packages around that
            modules = [made.slot.name.partition(":")[0] for made, _ in makers if made is not record]
            around = any(module.startswith(f"{state.target.module}.") for module in modules)
            home = around or any(made is record for made, _ in makers)
        return Move(state, record, old, home, len(self._journal.makers(record.top)) == 1, tuple(makers))

    def rebind(
        self, moves: Iterable[Move], modules: Optional[Modules] = None, waiting: Iterable[Application] = ()
    ) -> None:
        """Bind the by-value references to what ``moves`` replaced to the replacements, in one pass for all of them.

        Args:
            moves: what was written.
            modules: where to look; all loaded modules by default.
            waiting: applications whose replacements are to be seen at home now, before anybody takes them from a slot.
        """
        moves = list(moves)
        old = {id(move.old): move for move in moves if move.followed}
        homes = {id(value): value for move in moves if move.first for value in _foreign(move.state, move.record)}
        for application in waiting:
            for value in (v for state in application.states for v in _foreign(state)):
                if not self._journal.count_makers(value):
                    homes[id(value)] = value
        if not old and not homes:
            return
        wanted = [move.old for move in old.values()] + [value for key, value in homes.items() if key not in old]
        found = references.find_references(wanted, modules or loaded_modules())
        reads: dict[int, set[tuple[int, str]]] = {}
        with self._journal.lock:
            self._homes.update((key, (value, {})) for key, value in homes.items())
            for slot, held in found:
                if id(held) in homes and not self._journal.looks_after(slot):
                    self._homes[id(held)][1][slot.identity] = slot
                if id(held) in old:
                    self._bind(_last(old, held), slot, held, reads)

    def catch_up(self, slot: Slot, moves: Moves) -> None:
        """Bind ``slot`` now, where :meth:`rebind` would bind it later: a change is about to be laid over it."""
        if isinstance(slot, (NamespaceSlot, ClassSlot)) and isinstance(slot.owner, (ModuleType, type)):
            move = moves.of(slot.read())
            if move is not None and move.record.slot.identity != slot.identity:
                with self._journal.lock:
                    self._bind(move, slot, move.old, {})

    def retire(self, retired: Sequence[Retired]) -> None:
        """Bind names that took a replacement from a patched slot to what the slot holds now."""
        gone: dict[int, list[Retired]] = {}
        for r in retired:
            gone.setdefault(id(r.old), []).append(r)
        for slot, held in references.find_references([r.old for r in retired], loaded_modules()):
            # one object may have stood in several slots: it came from the one of that name, if there is one
            candidates = gone[id(held)]
            successor = next((r for r in candidates if r.record.slot.key == slot.key), candidates[-1])
            value = successor.record.by_value
            # where the patch had added a name, there is nothing to go back to
            if value is not ABSENT and not self._journal.looks_after(slot) and not self.stays(slot, successor):
                slot.write(value)
        for r in retired:
            if not self._journal.count_makers(r.old):
                self._homes.pop(id(r.old), None)

    def forget(self, application: Application) -> None:
        """Drop what is remembered for replacements of an application that never came into force."""
        for value in (v for state in application.states for v in _foreign(state)):
            if not self._journal.count_makers(value):
                self._homes.pop(id(value), None)

    def stays(self, slot: Slot, gone: Retired) -> bool:
        """Tell whether ``slot`` holds a replacement as its own, not from the patched slot that it has left."""
        return self.is_own(slot, gone.old, gone.change)

    def is_own(self, slot: Slot, value: Any, change: Change) -> bool:
        """Tell whether ``slot`` holds ``value``, which ``change`` has put elsewhere, as its own."""
        if isinstance(change, Register):  # nobody takes a class from a registry's table by value
            return True
        if not _is_foreign(change):
            return False
        if slot.identity in self._homes.get(id(value), (None, {}))[1]:
            return True
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if slot.name == f"{module}:{name}":
            return True
        root = str(module).partition(".")[0]
        return slot.name.partition(":")[0].partition(".")[0] == root and root != change.target.root

    def unreachable(self, applications: Iterable[Application]) -> dict[int, list[str]]:
        """Return, by ``id`` of the change's state, the places that hold what was replaced and cannot be rebound."""
        with self._journal.lock:
            originals: dict[int, ChangeState] = {}
            for application in applications:
                for record in self._journal.records_of(application):
                    state = next((s for s in application.states if record.slot.name in s.slots), None)
                    original = reference(record.original)
                    if state is not None and has_identity(original) and references.is_home(state.target, original):
                        originals.setdefault(id(original), state)
            all_originals = [reference(record.original) for record in self._journal]
            held = [original for original in all_originals if id(original) in originals]
            ours = [reference(layer.product) for record in self._journal for layer in record.layers]
        found: dict[int, list[str]] = {}
        for original, place in references.find_unreachable(held, ours):
            found.setdefault(id(originals[id(original)]), []).append(f"{place.kind} {place.where}")
        return found

    def _bind(self, move: Move, slot: Slot, held: Any, reads: dict[int, set[tuple[int, str]]]) -> None:
        """Let ``slot``, which holds what was replaced, follow; keep it where a replacement reads the original there."""
        if not move.followed or self._journal.find(slot) is not None or slot.read() is not held:
            return
        if self._journal.looks_after(slot) and not move.goes_on(self._journal.followed(slot)):
            return
        if any(self.is_own(slot, held, layer.change) for _, layer in move.makers):
            return
        key = id(move.record)
        if key not in reads:
            sources = [_source(layer) for layer in move.record.layers if layer.change is not None]
            reads[key] = {name for source in sources for name in references.names_read_by(source)}
        if (id(namespace(slot.owner)), slot.key) in reads[key]:
            move.state.kept.append(slot.name)
        else:
            self._journal.follow(move.record, slot)
            move.state.rebound.append(slot.name)


def _last(old: Mapping[int, Move], held: Any) -> Move:
    """The move that a reference to ``held`` follows: where the replacement was replaced again, the last."""
    move = old[id(held)]
    following = old.get(id(move.record.by_value))
    return move if following is None or not following.goes_on(move.record) else _last(old, following.old)


def _is_foreign(change: Change) -> bool:
    """Tell whether what a change puts in its slot may exist without the patch."""
    return isinstance(change, Call) or (isinstance(change, SlotChange) and not change.makes_product)


def _foreign(state: ChangeState, record: Optional[Record] = None) -> list[Any]:
    """The replacement of a change when it exists without the patch and is loaded, in a list; empty otherwise."""
    if not _is_foreign(state.change):
        return []
    if isinstance(state.change, Call):
        value = reference(record.top) if record is not None else None
    else:
        value = _loaded(state.change.source)
    return [value] if has_identity(value) else []


def _source(layer: Layer) -> Any:
    """What says where the code of a layer is: the function behind it, for one written by hand the product."""
    return layer.product if isinstance(layer.change, Call) else _loaded(layer.change.source)


def _loaded(source: Any) -> Any:
    """The object a change refers to, ``None`` while its module is not loaded."""
    if not isinstance(source, Target):
        return source
    module = executed_module(source.module)
    try:
        return reference(find_slot(source, module).lookup()) if module is not None else None
    except Exception:  # resolving it properly, later, will say why
        return None
