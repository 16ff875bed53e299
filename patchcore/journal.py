"""The journal: every slot that was written, and how it comes back.

One journal serves the process, so that two Patchers never stack one patch twice and neither loses the other's work. A
slot that is patched has a :class:`Record`: the raw value found first (the *base*), the *layers* laid over it, and its
*followers*, the slots that held the same object by value and now go where the record goes.

    base -> layer of patch A -> layer of patch B        what the slot holds is the last layer's product
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, NamedTuple, Optional

from patchcore.binding import has_identity, reference
from patchcore.target import ABSENT, Slot

__all__ = ["Journal", "Layer", "Record", "Retired", "describe"]


class Layer:
    """What one change of one applied patch put over what was there.

    Args:
        owner: whose layer this is (an application); ``None`` for a value that somebody else wrote between two layers.
        change: the change it comes from, ``None`` like ``owner``.
        product: the raw value it put in the slot.
        below: the raw value a lookup found when the product was made.
        build: makes the product anew for another ``below``; ``None`` when the product does not depend on it.
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


class Record:
    """One patched slot: its base, its layers, its followers."""

    __slots__ = ("base", "followers", "layers", "slot")

    def __init__(self, slot: Slot, base: Any) -> None:
        self.slot = slot
        self.base = base
        self.layers: list[Layer] = []
        self.followers: dict[tuple[int, str, Any], Slot] = {}

    @property
    def top(self) -> Any:
        """The raw value the journal last put in the slot."""
        return self.layers[-1].product if self.layers else self.base

    @property
    def original(self) -> Any:
        """The raw value a lookup found before any layer."""
        return self._effective(self.base)

    @property
    def by_value(self) -> Any:
        """What a name bound by value to this slot should hold now."""
        return reference(self._effective(self.top))

    def rebuild(self, first: int) -> None:
        """Make the products of ``layers[first:]`` anew, each on the one below."""
        below = self._effective(self.layers[first - 1].product if first else self.base)
        for layer in self.layers[first:]:
            if layer.build is not None and layer.below is not below:
                layer.product = layer.build(below, self.slot)
                layer.below = below
            below = layer.product

    def settle(self, before: Any, notes: list[str]) -> None:
        """Write the top to the slot, and to the followers that still hold ``before``, the former :attr:`by_value`."""
        self.slot.write(self.top)
        for key, follower in list(self.followers.items()):
            if follower.read() is before:
                follower.write(self.by_value)
            else:
                notes.append(
                    f"{follower.name} was bound to {describe(follower.read())} by somebody else; left as it is"
                )
                del self.followers[key]

    def _effective(self, own: Any) -> Any:
        return self.slot.inherited() if own is ABSENT else own


class Retired(NamedTuple):
    """A product that left its slot: a name that got ``old`` from there by value should hold ``record.by_value`` now."""

    record: Record
    old: Any
    change: Any


class Journal:
    """The records of a process. Callers hold :attr:`lock` around reads that must agree with a write that follows."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._records: dict[tuple[int, str, Any], Record] = {}
        self._owned: dict[int, list[Record]] = {}  # id(owner) -> records it has layers in, oldest first
        self._makers: dict[int, list[tuple[Record, Layer]]] = {}  # id(product) -> who put it where

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def find(self, slot: Slot) -> Optional[Record]:
        """Return the record of a patched slot, or ``None``."""
        return self._records.get(slot.identity)

    def records_of(self, owner: Any) -> list[Record]:
        """Return the records that ``owner`` has layers in, oldest first."""
        return list(self._owned.get(id(owner), ()))

    def maker(self, raw: Any) -> Optional[tuple[Record, Layer]]:
        """Return the record and layer that made ``raw``, when a layer of the journal did."""
        makers = self._makers.get(id(reference(raw)))
        return makers[0] if makers else None

    def push(self, slot: Slot, layer: Layer) -> Record:
        """Lay ``layer`` over ``slot`` and write its product."""
        record = self._records.get(slot.identity)
        found = slot.read()
        if record is None:
            record = self._records[slot.identity] = Record(slot, found)
        elif found is not record.top:
            record.layers.append(Layer(None, None, found, record.top))
        before = record.by_value
        self._add(record, layer)
        record.settle(before, [])
        return record

    def adopt(self, slot: Slot, layer: Layer, base: Any) -> Record:
        """Enter ``layer``, whose product somebody wrote by hand over ``base``, without writing anything."""
        record = self._records.get(slot.identity)
        if record is None:
            record = self._records[slot.identity] = Record(slot, base)
        self._add(record, layer)
        return record

    def follow(self, record: Record, slot: Slot) -> None:
        """Bind ``slot``, a by-value reference to the record's slot, to what that slot holds now, and keep it so."""
        record.followers[slot.identity] = slot
        slot.write(record.by_value)

    def remove(self, owners: Iterable[Any]) -> tuple[list[Retired], list[str]]:
        """Remove every layer of ``owners``, newest slot first, and restore slots that nobody else patches.

        Layers of others above are made anew on what is now below them. Returns the products that left their slots, and notes
        on slots where somebody else had written on top.
        """
        owned = set(map(id, owners))
        touched = {id(record): record for key in owned for record in self._owned.pop(key, ())}
        retired: list[Retired] = []
        notes: list[str] = []
        for record in reversed(list(touched.values())):
            self._take_out(record, owned, retired, notes)
        self._rebase({id(r.old): r for r in retired}, retired, notes)
        return retired, notes

    def _take_out(self, record: Record, owned: set[int], retired: list[Retired], notes: list[str]) -> None:
        before, found = record.by_value, record.slot.read()
        if found is not record.top:
            notes.append(
                f"{record.slot.name}: {describe(found)} was put on top by somebody else and is gone with the patch below it"
            )
        old = list(record.layers)
        first = next(i for i, layer in enumerate(old) if id(layer.owner) in owned)
        kept = [layer for layer in old if id(layer.owner) not in owned]
        if all(layer.owner is None for layer in kept):
            notes += (
                f"{record.slot.name}: {describe(layer.product)}, put there by somebody else, is gone" for layer in kept
            )
            kept = []
        self._replace_layers(record, kept, min(first, len(kept)), old, before, retired, notes)
        if not record.layers:
            del self._records[record.slot.identity]

    def _rebase(self, gone: Mapping[int, Retired], retired: list[Retired], notes: list[str]) -> None:
        """Make anew what was built on a product that is gone: patched re-exports and overrides of patched methods."""
        if not gone:
            return
        further: list[Retired] = []
        for record in list(self._records.values()):
            successor = gone.get(id(reference(record.base)))
            built_on = [i for i, layer in enumerate(record.layers) if id(reference(layer.below)) in gone]
            if successor is None and not built_on:
                continue
            before = record.by_value
            if successor is not None:
                record.base = successor.record.by_value
            self._replace_layers(
                record, record.layers, min(built_on, default=0), list(record.layers), before, further, notes
            )
        retired += further
        self._rebase({id(r.old): r for r in further}, retired, notes)

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
        products = [(layer, reference(layer.product)) for layer in old]
        for layer in old:
            self._forget(layer)
        record.layers = kept
        record.rebuild(first)
        for layer in kept:
            self._remember(record, layer)
        record.settle(before, notes)
        current = {id(reference(layer.product)) for layer in kept}
        retired += (
            Retired(record, p, layer.change) for layer, p in products if has_identity(p) and id(p) not in current
        )

    def _add(self, record: Record, layer: Layer) -> None:
        record.layers.append(layer)
        self._owned.setdefault(id(layer.owner), []).append(record)
        self._remember(record, layer)

    def _remember(self, record: Record, layer: Layer) -> None:
        value = reference(layer.product)
        if has_identity(value):
            self._makers.setdefault(id(value), []).append((record, layer))

    def _forget(self, layer: Layer) -> None:
        key = id(reference(layer.product))
        left = [entry for entry in self._makers.get(key, ()) if entry[1] is not layer]
        if left:
            self._makers[key] = left
        else:
            self._makers.pop(key, None)


def describe(value: Any) -> str:
    """Return a short name of ``value`` for messages: ``module:qualname``, or its type."""
    name = getattr(value, "__qualname__", None)
    return (
        f"{getattr(value, '__module__', '?')}:{name}" if isinstance(name, str) else f"a {type(value).__name__} object"
    )
