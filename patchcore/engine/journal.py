"""The journal: every slot that was written, and the value that restores it.

One journal serves the process, so that two Patchers never stack one patch twice and neither loses the other's work. A
patched slot has a :class:`Record`: the first raw value (the *base*), the *layers* of the patches on top of it, and its
*followers*, the slots that held the same object by value and are now written together with the record's slot.

    base -> layer of patch A -> layer of patch B        the slot holds the product of the last layer

Removing a layer in the middle builds the layers above it again on the layer below, so patches can be reverted in any
order.

A Ctrl-C, or an exception of a signal handler, may end an operation at any line. Each operation is therefore done whole
or not at all: an :class:`_Operation` keeps the earlier state of each record that it changes, and one that did not end
is undone, at the latest before the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from threading import RLock
from typing import Any, Callable, NamedTuple, Optional

from patchcore.declare.slots import BodySlot, Slot, same_value
from patchcore.engine import superseded
from patchcore.errors import describe_error
from patchcore.objects.binding import has_identity, held_value, wrapped_callable
from patchcore.objects.bodies import patched_body
from patchcore.objects.descriptors import FORMS
from patchcore.objects.modules import ABSENT, is_class, mro, mro_lookup, namespace_of, qualified_name

__all__ = ["Journal", "KeptName", "Layer", "Record", "Retired", "by_product", "describe"]


Identity = tuple[int, str, Any]  # of a slot


class Layer:
    """The value that one change of one applied patch put on top of the earlier one.

    Args:
        owner: the application that the layer belongs to; ``None`` for a value that other code wrote between two layers.
        change: the change that wrote it, ``None`` without an owner.
        product: the raw value that it put in the slot.
        below: the raw value that a lookup found when the product was made.
        build: makes the product again for another ``below``; ``None`` if the product does not depend on it.
    """

    __slots__ = ("below", "build", "change", "owner", "product")

    def __init__(
        self, owner: Any, change: Any, product: Any, below: Any, build: Optional[Callable[[Any, Slot], Any]] = None
    ) -> None:
        self.owner = owner
        self.change = change
        self.product = product
        self.below = below
        self.build = build


class KeptName(Layer):
    """The layer of a name under which a replacement calls the original: the name gets a copy of that."""

    __slots__ = ()


class Follower(NamedTuple):
    """A slot that follows a record, and the record it followed before, if any: the slot of an alias was patched."""

    slot: Slot
    former: Optional[Record]


class Record:
    """One patched slot: its base, its layers, its followers."""

    __slots__ = ("base", "followers", "layers", "number", "slot", "spaces")
    _numbers = itertools.count()

    def __init__(self, slot: Slot, base: Any) -> None:
        self.number = next(self._numbers)  # later records may be built on earlier ones
        self.slot = slot
        self.base = base
        self.layers: list[Layer] = []
        self.followers: dict[Identity, Follower] = {}
        self.spaces: Sequence[Any] = ()  # of the modules it may be in, once they were imported again

    @property
    def top(self) -> Any:
        """The raw value the journal last put in the slot."""
        return self.layers[-1].product if self.layers else self.base

    @property
    def original(self) -> Any:
        """The raw value a lookup found before any layer."""
        return self.effective(self.base)

    @property
    def by_value(self) -> Any:
        """The object that a by-value reference to this slot must hold now."""
        return held_value(self.effective(self.top))

    def effective(self, own: Any) -> Any:
        """Return the raw value a lookup finds when the slot's owner itself holds ``own``."""
        return self.slot.inherited() if own is ABSENT else own

    def rebuild(self, first: int, carries: Carries, laid: Callable[[Layer], None], notes: list[str]) -> None:
        """Build the products of ``layers[first:]`` again, each on the one below; drop a layer that cannot be built.

        ``laid`` is called with each layer in turn, because the next layer may depend on it.
        """
        below = self.effective(self.layers[first - 1].product if first else self.base)
        kept = self.layers[:first]
        for layer in self.layers[first:]:
            if layer.below is not below:
                try:
                    self._lay(layer, below, carries, notes)
                except Exception as error:
                    why = f"it cannot be applied on top of {describe(below)}: {describe_error(error)}"
                    notes.append(f"{self.slot.name}: {layer.owner} is reverted too, because {why}")
                    continue
            kept.append(layer)
            laid(layer)
            below = layer.product
        self.layers = kept

    def _lay(self, layer: Layer, below: Any, carries: Carries, notes: list[str]) -> None:
        if layer.build is None:
            notes.append(
                f"{self.slot.name}: {describe(layer.product)}, which other code made from a reverted patch, is kept"
            )
        elif type(layer) is not KeptName and carries(below, layer):
            layer.product = below  # an alias of a slot that has the same layer now
        else:
            layer.product = layer.build(below, self.slot)
        layer.below = below


class Retired(NamedTuple):
    """A product that left its slot: a name that got ``old`` from there by value should hold ``record.by_value`` now.

    ``owner`` is the application whose ``change`` has put it there.
    """

    record: Record
    old: Any
    change: Any
    owner: Any


#: Called with a slot that holds a withdrawn product; returns the record of the slot that it was copied from, if any.
Origin = Callable[[Slot, Sequence[Retired]], Optional[Record]]
#: Returns True if calls of a raw value go through the change of a layer already.
Carries = Callable[[Any, Layer], bool]

_STALE: Any = object()


class Journal:
    """The records of a process. Callers hold :attr:`lock` around reads that must agree with a write that follows."""

    def __init__(self) -> None:
        # Reentrant, because a signal handler or a finalizer can run in the middle of an operation, in the same thread,
        # and import a patched module. It would wait for itself forever otherwise.
        self.lock = RLock()
        self._operation: Optional[_Operation] = None  # under way, or interrupted
        self.retired: list[Retired] = []  # products whose by-value references are not rebound yet
        # The tables have `id`s as keys, not objects: a product or an owner may define `__eq__` and `__hash__`, or be
        # unhashable. An `id` stays valid because the layer, or the slot, that is entered under it refers to the object.
        self._records: dict[Identity, Record] = {}
        self._owned: dict[int, list[Record]] = {}  # id(owner) -> records it has layers in, oldest first
        self._makers: dict[int, dict[int, tuple[Record, Layer]]] = {}  # id(product) -> by id(layer), who put it where
        self._followed: dict[Identity, Record] = {}  # a follower's slot -> the record it follows

    def after_fork(self) -> None:
        """Make a new lock: a thread of the parent may have held the old one, in the middle of an operation."""
        self.lock = RLock()
        self.recover()

    def recover(self) -> None:
        """Undo an operation that was interrupted; the next operation does so, too."""
        if self._operation is not None:
            self._operation.undo()

    @property
    def is_busy(self) -> bool:
        """True while this thread holds :attr:`lock`: a call then comes from a signal handler or a finalizer."""
        # RLock has no public way to ask. `threading.Condition` of the standard library uses the same method of it.
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def find(self, slot: Slot) -> Optional[Record]:
        """Return the record of a patched slot, or ``None``."""
        return self._records.get(slot.identity)

    def original(self, slot: Slot) -> Any:
        """Return the raw value that a lookup in ``slot`` would find if nothing had been written, or ``ABSENT``."""
        found = slot.lookup()
        record = self.find(slot)
        if record is not None:
            found = record.original
        made = next((record for record, _ in self.behind(found)), None)
        return found if made is None else made.original

    def records_of(self, owner: Any) -> list[Record]:
        """Return the records that ``owner`` has layers in, oldest first."""
        return list(self._owned.get(id(owner), ()))

    def makers(self, raw: Any) -> Sequence[tuple[Record, Layer]]:
        """Return the layers of the journal whose product ``raw`` is, with their records."""
        found = self._makers.get(id(held_value(raw)))
        return list(found.values()) if found else ()

    def behind(self, raw: Any) -> Sequence[tuple[Record, Layer]]:
        """Return the layers through which a call of ``raw`` goes: its :meth:`makers`, or those of its body."""
        found = self.makers(raw)
        record = None if found else self._of_body(wrapped_callable(raw) if issubclass(type(raw), FORMS) else raw)
        return found if record is None else [(record, layer) for layer in record.layers if layer.owner is not None]

    def _of_body(self, function: Any) -> Optional[Record]:
        """Return the record of the body of ``function``, ``None`` if that is not patched, or it is no function."""
        if patched_body(function) is None:
            return None
        return self._records.get((id(function), BodySlot.space, ""))

    def carrier(self, raw: Any, owner: Any, change: Any, record: Optional[Record] = None) -> Optional[Record]:
        """Return the record through which a slot shows ``change`` already: its own, of a re-export or of a base class.

        Args:
            raw: the value that a lookup finds in the slot; ``change`` may have made it, or an object that it calls.
            owner: the application of the change.
            change: the change.
            record: of the slot itself, if it is patched.
        """
        if record is not None and any(e.owner is owner and e.change is change for e in record.layers):
            return record
        # Without this a re-export would be wrapped twice: `lib.f` and `lib.core.f` are one function, a patch of both
        # changes the first, and the second shows the wrapper by the time it is written. A wrapper of another patch may
        # be on top of the product, so the objects that it calls are followed, too.
        todo = [raw]
        while todo:
            for record, layer in self.behind(todo.pop()):
                if layer.owner is owner and _same_action(layer.change, change):
                    return record
                if getattr(layer.change, "makes_product", False) and layer.product is not layer.below:
                    todo.append(layer.below)
        return None

    def overwritten(self) -> list[tuple[Record, Any]]:
        """Return the records of slots to which other code has written since, each with the value found there."""
        if self.is_busy:  # a signal handler calls in the middle of a write
            return []
        with self.lock:
            return list(self._overwritten())

    def _overwritten(self) -> Iterator[tuple[Record, Any]]:
        for record in self:
            found = record.slot.read()
            body = record.slot.body if isinstance(record.slot, BodySlot) else None
            is_patched = body is not None and body.original is not record.base and found is not body.original
            if not same_value(found, record.top) and not is_patched:
                yield record, found

    def covered(self) -> dict[int, list[tuple[Record, Record, Layer]]]:
        """Return by ``id`` of the owner its records that a later layer replaces, with that layer and its record."""
        classes = {id(record.base): record for record in self if is_class(record.base)}
        found: dict[int, list[tuple[Record, Record, Layer]]] = {}
        for record in self:
            place = record.slot.place if isinstance(record.slot, BodySlot) else record.slot
            above = self.find(place) if place is not record.slot else None
            around = classes.get(id(place.owner))
            if len(record.layers) < 2 and around is None and above is None:
                continue
            later = [(around, layer) for layer in around.layers if not _inherits(layer, place.owner)] if around else []
            later += [(above, layer) for layer in above.layers] if above else []
            for layer in reversed(record.layers):
                if layer.owner is not None and type(layer) is not KeptName:
                    others = [(r, other) for r, other in later if other.owner is not layer.owner and _covers(other)]
                    if others:
                        found.setdefault(id(layer.owner), []).append((record, *others[0]))
                later.insert(0, (record, layer))
        return found

    def wrote(self, slot: Slot, raw: Any) -> bool:
        """True if the journal put ``raw`` in ``slot``: a product, or the value of the record that the slot follows."""
        record = self._records.get(slot.identity)
        if record is not None:
            return held_value(raw) is held_value(record.top)
        followed = self._followed.get(slot.identity)
        return followed is not None and held_value(raw) is followed.by_value

    def followed(self, slot: Slot) -> Optional[Record]:
        """Return the record that ``slot`` follows, or ``None``."""
        return self._followed.get(slot.identity)

    def looks_after(self, slot: Slot) -> bool:
        """Return whether ``slot`` is patched, or follows one that is."""
        return slot.identity in self._records or self.wrote(slot, slot.read())

    def push(self, slot: Slot, layer: Layer) -> Record:
        """Add ``layer`` on top of ``slot`` and write its product."""
        with _Operation(self):
            return self._lay(slot, slot.read(), layer)

    def adopt(self, slot: Slot, layer: Layer, before: Any) -> Record:
        """Enter ``layer``, whose product a function has already written by hand over ``before``."""
        with _Operation(self):
            return self._lay(slot, before, layer)

    def follow(self, record: Record, slot: Slot) -> None:
        """Make ``slot``, a by-value reference to the record's slot, a follower of the record.

        It gets the present value now, and later values with the record's slot. If ``slot`` has layers of its own, its
        base follows instead.
        """
        with _Operation(self):
            self._follow(record, slot)

    def _follow(self, record: Record, slot: Slot) -> None:
        former = self._followed.get(slot.identity)
        if former is not None:
            slot = former.followers[slot.identity].slot  # it knows what it held first
            self._unfollow(former, slot.identity)
        self._change(record)
        record.followers[slot.identity] = Follower(slot, former)
        self._followed[slot.identity] = record
        patched = self._records.get(slot.identity)
        if patched is None:
            self._write(slot, record.by_value)
        else:
            self._change(patched)
            patched.base = slot.form(record.by_value)

    def remove(self, owners: Iterable[Any], origin: Origin) -> list[str]:
        """Remove every layer of ``owners``, newest slot first, and restore slots without other layers.

        Layers of other owners above them are built again on the value that is now below them. The products that leave
        their slots are entered in :attr:`retired`.

        Args:
            owners: the applications whose layers are removed.
            origin: returns the record that a slot with a removed product copied it from.

        Returns:
            Notes on slots where other code had written on top.
        """
        with _Operation(self):
            owned = set(map(id, owners))
            touched = {record.number: record for key in owned for record in self._owned.pop(key, ())}
            for record in touched.values():
                record.slot.read()  # its body may be that of a function whose patch is removed below
            restored = [record for record in touched.values() if record.slot.identity not in self._followed]
            retired: list[Retired] = []
            notes: list[str] = []
            for _, record in sorted(touched.items(), reverse=True):
                self._take_out(record, owned, retired, notes)
            # Last, when all removed products are known: a layer of another patch may have been built on one of them,
            # which it found in another slot.
            self._rebase(retired, origin, notes, restored)
            for record in touched.values():
                if not record.layers:  # a slot that follows another record may have moved on since
                    self._change(record)
                    record.base = record.slot.read()
            # A new list: the operation keeps the earlier one, and puts it back if it is undone.
            self.retired = [*self.retired, *retired]
            return notes

    def renew(self, owner: Any, origin: Origin) -> None:
        """Apply the layers to the slots of module ``owner`` again after a reload (:func:`importlib.reload`).

        The value that the body put in a slot is the new base. Arguments are those of :meth:`remove`.
        """
        with _Operation(self):
            retired: list[Retired] = []
            notes: list[str] = []
            for record in self:
                found = record.slot.read()
                if record.slot.owner is owner and found is not record.top:
                    before, old = record.by_value, list(record.layers)
                    self._change(record)
                    record.base = found
                    # a value written by hand is gone; the function that wrote it is called again
                    kept = [layer for layer in old if layer.build is not None]
                    self._replace_layers(record, kept, 0, old, before, retired, notes)
            self._rebase(retired, origin, notes)
            self.retired = [*self.retired, *retired]

    def forget_unused(self, name: str, module: Any, spaces: Sequence[Any], tables: Iterable[Any]) -> None:
        """Delete the records of earlier modules of a name, if no other code uses such a module any more.

        Args:
            name: of a module.
            module: the new module of that name; nothing was written to it yet.
            spaces: the namespaces of earlier ones.
            tables: further tables of the engine that refer to records.
        """
        prefix = f"{name}:"
        generations: dict[int, list[Record]] = {}
        for record in self:
            if record.slot.name.startswith(prefix) and record.slot.owner is not module:
                record.spaces = record.spaces or spaces
                generations.setdefault(id(record.spaces), []).append(record)
        del record  # the variable would be one reference too many: `superseded.is_used` counts them
        for old in generations.values():
            self._forget_generation(name, old, [old[0].spaces, spaces], tables)

    def _forget_generation(self, name: str, old: list[Record], spaces: list[Any], tables: Iterable[Any]) -> None:
        owners = [record.slot.owner for record in old]
        known = set(map(id, (*owners, *spaces[0])))
        following = [
            (record, key)
            for record in self
            for key, (slot, _) in record.followers.items()
            if id(slot.owner) in known or id(namespace_of(slot.owner)) in known
        ]
        if superseded.is_used(name, owners, [*old, *spaces], [*tables, *self._tables(), following, *following]):
            return
        with _Operation(self):
            for record, key in following:
                if key in record.followers:
                    self._unfollow(record, key)
            for record in old:
                self._change(record)
                del self._records[record.slot.identity]
                for layer in record.layers:
                    self._forget(layer)
                for key in list(record.followers):
                    self._unfollow(record, key)
                record.layers = []
            gone = set(map(id, old))
            for records in self._owned.values():
                records[:] = [record for record in records if id(record) not in gone]

    def _tables(self) -> Iterator[Any]:
        yield from (self._records, self._followed, *self._owned.values())
        for makers in self._makers.values():
            yield from (makers, *makers.values())
        for record in self:
            yield from (record.followers, *record.followers.values())

    def _lay(self, slot: Slot, found: Any, layer: Layer) -> Record:
        record = self._records.get(slot.identity) or Record(slot, found)
        self._change(record)
        self._records[slot.identity] = record
        before = record.by_value if record.layers else None
        if record.layers and not same_value(found, record.top):
            record.layers.append(Layer(None, None, found, record.effective(record.top)))
        layer.below = record.effective(found)
        record.layers.append(layer)
        self._owned.setdefault(id(layer.owner), []).append(record)
        self._remember(record, layer)
        self._settle(record, before, [])
        return record

    def _settle(self, record: Record, before: Any, notes: list[str]) -> None:
        """Write the top to the slot, and to the followers that hold ``before``, the former :attr:`Record.by_value`."""
        self._write(record.slot, record.top)
        for key, (follower, _) in list(record.followers.items()) if record.followers else ():
            patched = self._records.get(key)
            if patched is not None:  # it has layers of its own: its base follows
                if held_value(patched.base) is before:
                    self._change(patched)
                    patched.base = follower.form(record.by_value)
            elif follower.read() is before:
                self._write(follower, record.by_value)
            else:
                notes.append(f"{follower.name} is not restored: other code bound it to {describe(follower.read())}")
                self._unfollow(record, key)

    def _take_out(self, record: Record, owned: set[int], retired: list[Retired], notes: list[str]) -> None:
        old = list(record.layers)
        first = next((i for i, layer in enumerate(old) if id(layer.owner) in owned), None)
        if first is None:  # dropped already, as it could not be built again
            return
        before, found = record.by_value, record.slot.read()
        if isinstance(record.slot, BodySlot) and record.slot.body.original is not record.base:
            notes.append(f"{record.slot.name} was edited while it was patched: the new code stays")
            self._change(record)
            record.base, first = record.slot.body.original, 0
        elif not same_value(found, record.top) and not same_value(found, record.base):
            what = f"other code had put {describe(found)} on top of the patch"
            notes.append(f"{record.slot.name}: {what}; both are removed")
        kept = [layer for layer in old if id(layer.owner) not in owned]
        if all(layer.owner is None for layer in kept):
            notes += (
                f"{record.slot.name}: {describe(layer.product)}, put there by other code, is removed" for layer in kept
            )
            kept = []
        self._replace_layers(record, kept, min(first, len(kept)), old, before, retired, notes)

    def _rebase(
        self, retired: list[Retired], origin: Origin, notes: list[str], restored: Iterable[Record] = ()
    ) -> None:
        """Build layers again that were built on a removed product: of patched re-exports, of overrides of methods."""
        gone = by_product(retired)
        while gone:  # a layer that is built again has a new product, on which a third layer may be built
            further: list[Retired] = []
            for record in {record.number: record for record in (*self, *restored)}.values():
                # the base of a follower comes from the record that it follows
                base = None if record.slot.identity in self._followed else gone.get(id(held_value(record.base)))
                successor = origin(record.slot, base) if base is not None else None
                built_on = []
                for i, layer in enumerate(record.layers):
                    if layer.build is not None and id(held_value(layer.product)) in gone:
                        self._change(record)
                        layer.below = _STALE  # the replacement was itself a product, and is looked up again
                        built_on.append(i)
                    elif id(held_value(layer.below)) in gone:
                        built_on.append(i)
                if successor is None and not built_on:
                    continue
                before = record.by_value
                if successor is not None:
                    self._change(record)
                    record.base = _in_place_of(record.base, successor.by_value)
                first = min(built_on, default=0)
                self._replace_layers(record, record.layers, first, list(record.layers), before, further, notes)
            retired += further
            gone = by_product(further)

    def _replace_layers(
        self,
        record: Record,
        kept: list[Layer],
        first: int,
        old: list[Layer],
        before: Any,
        retired: list[Retired],
        notes: list[str],
    ) -> None:
        self._change(record)
        products = [(layer, held_value(layer.product)) for layer in old]
        for layer in old:
            self._forget(layer)
        record.layers = kept
        for layer in kept[:first]:
            self._remember(record, layer)
        record.rebuild(
            first,
            lambda below, layer: self.carrier(below, layer.owner, layer.change) is not None,
            lambda layer: self._remember(record, layer),
            notes,
        )
        self._settle(record, before, notes)
        current = {id(held_value(layer.product)) for layer in record.layers}
        retired += (
            Retired(record, product, layer.change, layer.owner)
            for layer, product in products
            if layer.owner is not None and _is_single(product) and id(product) not in current
            if not isinstance(record.slot, BodySlot)  # no name has taken a product from there
        )
        if not record.layers:
            self._records.pop(record.slot.identity, None)
            alias_of = self._followed.get(record.slot.identity)
            for key, (follower, former) in list(record.followers.items()):
                self._unfollow(record, key)
                heir = former or alias_of
                patched = self._records.get(key)
                held = follower.read() if patched is None else held_value(patched.base)
                if heir is not None and heir.layers and held is heir.by_value:
                    self._follow(heir, follower)

    def _unfollow(self, record: Record, key: Identity) -> None:
        self._change(record)
        del record.followers[key]
        del self._followed[key]

    def _index(self) -> None:
        """Build the tables of owners, products and followers from the records, after an operation was undone.

        An interrupt may have left them in any state. The records were put back one by one, so they are the source.
        """
        self._owned, self._makers, self._followed = {}, {}, {}
        for record in self._records.values():
            for layer in record.layers:
                if layer.owner is not None:
                    self._owned.setdefault(id(layer.owner), []).append(record)
                self._remember(record, layer)
            self._followed.update(dict.fromkeys(record.followers, record))

    def _change(self, record: Record) -> None:
        """Keep the state of ``record``, which is about to change, for the case that the operation is undone."""
        assert self._operation is not None
        kept = self._operation.kept
        if record.number not in kept:
            layers = [(layer, layer.product, layer.below) for layer in record.layers]
            kept[record.number] = record, record.base, layers, record.followers.copy()

    def _write(self, slot: Slot, raw: Any) -> None:
        assert self._operation is not None
        self._operation.written.append((slot, slot.read()))
        slot.write(raw)

    def _remember(self, record: Record, layer: Layer) -> None:
        value = held_value(layer.product)
        if layer.owner is not None and _is_single(value):
            self._makers.setdefault(id(value), {})[id(layer)] = record, layer

    def _forget(self, layer: Layer) -> None:
        key = id(held_value(layer.product))
        makers = self._makers.get(key, {})
        makers.pop(id(layer), None)
        if not makers:
            self._makers.pop(key, None)


def _is_single(value: Any) -> bool:
    """True if a slot can only hold ``value`` because it was put there or taken from another slot."""
    return has_identity(value) or mro_lookup(type(value), "__get__") is not ABSENT


class _Operation:
    """One operation on a journal, done whole or not at all; those of a thread do not overlap."""

    __slots__ = ("_journal", "_retired", "kept", "written")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # by number, the earlier state of records: base, layers with the product and value below of each, followers
        self.kept: dict[int, tuple[Record, Any, list[tuple[Layer, Any, Any]], dict[Identity, Follower]]] = {}
        self._retired = journal.retired
        self.written: list[tuple[Slot, Any]] = []

    def __enter__(self) -> None:
        # Ctrl-C can raise KeyboardInterrupt between any two lines, also in the undo of an operation. That operation is
        # still entered then, and is undone before the next one begins.
        self._journal.recover()
        self._journal._operation = self

    def __exit__(self, kind: Optional[type[BaseException]], *exc_info: object) -> None:
        if kind is None:
            self._journal._operation = None
        else:
            self.undo()

    def undo(self) -> None:
        """Put the earlier state of records and slots back; may be called again if it was interrupted itself."""
        journal = self._journal
        # The last write first, as one operation may write a slot twice. What was put back already is skipped, so that a
        # call after an interrupt does not write values that a descriptor or a mapping would see a second time.
        for slot, raw in reversed(self.written):
            if not same_value(slot.read(), raw):
                slot.write(raw)
        for record, base, layers, followers in self.kept.values():
            record.base = base
            for layer, product, below in layers:
                layer.product, layer.below = product, below
            record.layers = [layer for layer, _, _ in layers]
            record.followers = dict(followers)
            if layers:
                journal._records[record.slot.identity] = record
            else:
                journal._records.pop(record.slot.identity, None)
        journal.retired = self._retired
        journal._index()
        journal._operation = None  # last: until then, the next operation undoes this one again


def by_product(retired: Iterable[Retired]) -> dict[int, list[Retired]]:
    """Return the retired products, grouped by ``id``."""
    found: dict[int, list[Retired]] = {}
    for r in retired:
        found.setdefault(id(r.old), []).append(r)
    return found


def _covers(layer: Layer) -> bool:
    return layer.owner is not None and layer.change.covers and type(layer) is not KeptName


def _inherits(layer: Layer, base: type) -> bool:
    return is_class(layer.product) and base in mro(layer.product)


def _same_action(first: Any, second: Any) -> bool:
    return type(first) is type(second) and (first.source is second.source or first.source == second.source)


def _in_place_of(raw: Any, value: Any) -> Any:
    """Return ``value`` in the form in which ``raw`` holds such a reference."""
    return staticmethod(value) if issubclass(type(raw), staticmethod) else value


def describe(value: Any) -> str:
    """Return a short name of ``value`` for messages: ``module:qualname``, or its type."""
    if value is ABSENT:
        return "a deletion"
    module, name = qualified_name(value)
    return f"{module}:{name}" if name else f"a {type(value).__name__} object"
