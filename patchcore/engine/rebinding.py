"""Rebinding: names that hold a patched object by value get the replacement, and the original again on revert.

``from shop import price`` in another module binds a second name. A patch of ``shop:price`` must reach that name too.
Each write of a slot is a :class:`Move`; :meth:`Rebinder.rebind` searches once for all :class:`Moves` of an apply or an
import. :mod:`patchcore.engine.references` finds the names, :class:`Rebinder` decides which of them to bind, and the
journal makes them followers of the slot's record, so that later writes and the revert reach them as well.

A name is left alone if the journal already writes it, if the replacement itself reads the original there, or if it
holds a replacement as its own: where the replacement is defined, or in a module that imported it from there and not
from the patched slot.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Callable, NamedTuple, Optional

from patchcore.declare.changes import Change
from patchcore.declare.registries import is_entry
from patchcore.declare.slots import BodySlot, ClassSlot, EntrySlot, ItemSlot, NamespaceSlot, Slot, find_slot
from patchcore.declare.target import Target
from patchcore.engine import references
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.journal import Identity, Journal, KeptName, Layer, Record, Retired, by_product
from patchcore.engine.references import StaticSlot
from patchcore.errors import DeclarationError, TargetError, TargetNotFound
from patchcore.objects.binding import has_identity, held_value, unmark
from patchcore.objects.bodies import copy_of
from patchcore.objects.modules import (
    ABSENT,
    class_namespace,
    executed_module,
    is_class,
    loaded_modules,
    mro,
    namespace_of,
)
from patchcore.report import PENDING

__all__ = ["FindHolders", "Move", "Moves", "Rebinder"]

Modules = Mapping[str, ModuleType]

#: Called with originals and with the objects that belong to patchcore and to replacements; see hook ``find_holders``.
FindHolders = Callable[[Iterable[Any], Iterable[Any]], Iterable[tuple[Any, str, str]]]


class Move(NamedTuple):
    """A write of a slot, after which the by-value references to its earlier value must be rebound.

    Args:
        state: the change that wrote it.
        record: the slot's record.
        old: the object that a by-value reference to the slot held before.
        home: true if the slot is where ``old`` is defined, and not an alias in some module.
        first: true if no patch had put the replacement in a slot before.
        source: the record of another slot, if ``old`` is a replacement that this slot has from there.
        changes: the changes that have put ``old`` in slots.
    """

    state: ChangeState
    record: Record
    old: Any
    home: bool
    first: bool
    source: Optional[Record]
    changes: tuple[Change, ...]

    @property
    def now(self) -> Any:
        """The object that a by-value reference must hold now, ``ABSENT`` if there is none or the patch was removed."""
        return self.record.by_value if self.record.layers else ABSENT

    @property
    def followed(self) -> bool:
        """True if by-value references must follow this move now."""
        return self.home and self.now is not ABSENT

    def goes_on(self, record: Optional[Record]) -> bool:
        """True if followers of ``record`` must now follow this move, because their alias was patched."""
        return record is not None and record is self.source and record is not self.record


class Moves:
    """The writes of one apply, or of one import.

    Args:
        moves: the writes so far.
        loaded: the modules that were imported before the first write; only they can hold a replacement as their own.
            ``None`` if no other thread could import meanwhile.

    Attributes:
        found: names of modules that were found and can be imported later.
        tables: names of attributes in which registries keep their entries, for the patches of these moves; a
            dictionary that keeps their order.
    """

    def __init__(self, moves: Iterable[Move] = (), *, loaded: Optional[Container[str]] = None) -> None:
        self.loaded = loaded
        self.found: set[str] = set()
        self.tables: dict[str, None] = {}
        self._all: list[Move] = []
        self._by_old: dict[int, list[Move]] = {}
        for move in moves:
            self.add(move)

    def __iter__(self) -> Iterator[Move]:
        return iter(self._all)

    def add(self, move: Move) -> None:
        """Remember a move."""
        self._all.append(move)
        self.tables.update(dict.fromkeys(move.state.extensions.tables))
        if move.old is not ABSENT:  # which no reference holds
            self._by_old.setdefault(id(move.old), []).append(move)

    def of(self, old: Any) -> Sequence[Move]:
        """Return the moves that references to ``old`` may follow, the latest first."""
        found = self._by_old.get(id(old))
        return [move for move in reversed(found) if move.followed] if found else ()


class Rebinder:
    """Moves the by-value references to slots of ``journal``."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # id(replacement) -> the replacement, and the slots that held it before any patched slot did. The replacement is
        # in the value so that it lives as long as the entry: another object could get its `id` otherwise.
        self._homes: dict[int, tuple[Any, dict[Identity, Slot]]] = {}
        # By number, the records of names that are not the object's own. By number and not by slot, because a slot that
        # is restored and patched again has a new record.
        self._aliases: dict[int, Record] = {}

    def moved(self, state: ChangeState, record: Record, below: Any) -> Move:
        """Return the move for a change that has just been written on top of ``below``."""
        old, slot = held_value(below), record.slot
        made = [(maker, layer.change) for maker, layer in self._journal.makers(below)]
        source = self._journal.followed(slot) or (self._likeliest(slot, old, made) if made else None)
        name = references.name_of(old)
        if state.change.enters_registry:
            home = False  # nobody has the class from the table, whatever names of its module the table is next to
        elif made and any(maker is record for maker, _ in made):
            source, home = record, True
        elif source is not None:  # at home in the packages around where it was put
            home = source.slot.name.startswith(f"{state.target.module}.")
        else:
            home = self._is_home(state.target, old, name, record)
        if slot.name != ":".join(name):
            self._aliases[record.number] = record
        first = len(self._journal.makers(record.top)) == 1
        return Move(state, record, old, home, first, source, tuple([change for _, change in made]))

    def rebind(self, moves: Moves, modules: Optional[Modules] = None, waiting: Iterable[Application] = ()) -> None:
        """Bind the by-value references to the replaced objects to the replacements, in one pass for all ``moves``.

        Args:
            moves: the writes.
            modules: the modules to search; all loaded modules by default.
            waiting: pending applications. The names that hold their replacements now are remembered as the
                replacements' own; a name that gets one later has it from the patched slot.
        """
        old: dict[int, Any] = {}
        homes: dict[int, Any] = {}
        signs: list[Any] = []
        for move in moves:
            signs.append(move.now)
            if move.home and signs[-1] is not ABSENT:
                old[id(move.old)] = move.old
            if move.first:
                # no local variable may hold one of them: the search would count it as a reference not yet found
                homes.update([(id(value), value) for value in _foreign(move.state, move.record)])
        # A name that holds a replacement before the patched slot does was imported from its module, and still holds it
        # after a revert. Once the slot holds it too, such a name looks like one that took it from the slot.
        values = [v for a in waiting for state in a.states if state.status == PENDING for v in _foreign(state)]
        homes.update((id(value), value) for value in values if not self._journal.makers(value))
        if not old and not homes:
            return
        # Each object that refers to an original and is no name is listed here, down to the local variables of this
        # function: the search is over when the references that it knows are all that the interpreter has counted.
        keepers = itertools.chain([old, homes, values], _keepers(moves))
        found = self._find([*{**old, **homes}.values()], modules, signs, keepers, moves.tables)
        reads: dict[int, set[tuple[int, str]]] = {}
        with self._journal.lock:
            for key, value in homes.items():  # earlier entries stay: an import searches a part of the modules only
                self._homes.setdefault(key, (value, {}))
            for slot, held in found:
                # A module that another thread was importing during the writes may have taken the replacement from the
                # patched slot already, so only names in modules that were loaded before them count as its own.
                is_early = moves.loaded is None or slot.name.partition(":")[0] in moves.loaded
                if is_early and id(held) in homes and not self._journal.looks_after(slot):
                    self._homes[id(held)][1][slot.identity] = slot
                self._bind(slot, held, moves, reads)
            for record in self._patched_aliases():  # the base of a patched alias follows
                if id(held_value(record.base)) in old and _may_follow(record.slot, moves.tables):
                    self._bind(_as_reference(record.slot, record.base), held_value(record.base), moves, reads)

    def catch_up(self, slot: Slot, moves: Moves) -> Any:
        """Bind ``slot`` now, where :meth:`rebind` would bind it later: a change is about to be written on top of it.

        Returns the raw value that its owner holds then.
        """
        raw = slot.read()
        if moves.of(held_value(raw)) and _may_follow(slot, moves.tables):
            with self._journal.lock:
                bound = _as_reference(slot, raw)
                self._bind(bound, bound.read(), moves, {})
            raw = slot.read()
        return raw

    def see_homes(
        self, values: Sequence[Any], modules: Optional[Modules] = None, *, tables: Iterable[str] = ()
    ) -> None:
        """Remember which names hold ``values``, replacements that are about to be put elsewhere, as their own.

        Args:
            values: the replacements.
            modules: the only ones that can have such names; all loaded modules by default.
            tables: names of attributes in which registries keep their entries.
        """
        found = [] if modules == {} else self._find([*values], modules, keepers=[values], tables=tables)
        with self._journal.lock:
            for value in values:
                self._homes.setdefault(id(value), (value, {}))
            for slot, held in found:
                if not self._journal.looks_after(slot):
                    self._homes[id(held)][1][slot.identity] = slot

    def retire(self) -> None:
        """Bind names that took a replacement from a patched slot to what the slot holds now."""
        retired = self._journal.retired
        if not retired:
            return
        gone = by_product(retired)
        kept = (part for r in retired for part in (r, r.old, r.change, namespace_of(r.change)))
        bases = [held_value(r.record.base) for r in retired]  # names of a replacement are near names of its original
        tables = dict.fromkeys([table for r in retired for table in r.owner.extensions.tables])
        for slot, held in self._find([r.old for r in retired], signs=bases, keepers=kept, tables=tables):
            successor = self.origin(slot, gone[id(held)])
            # if the patch had added the name, there is no earlier object
            if successor is not None and successor.by_value is not ABSENT and not self._journal.looks_after(slot):
                slot.write(successor.by_value)
        for r in retired:
            # Another slot may still hold the same replacement: one patch can put one function in several places.
            if not self._journal.makers(r.old):
                self._homes.pop(id(r.old), None)
                unmark(r.old)
        self.rebind(self._left_over(retired))
        self._journal.retired = []

    def _left_over(self, retired: Sequence[Retired]) -> Moves:
        """Return moves for the patched slots that names may follow now that the slot they followed is restored."""
        bases = (held_value(r.record.base) for r in retired if not r.record.layers)
        freed = {id(base) for base in bases if has_identity(base)}
        moves = Moves()
        for record in self._journal:
            if id(held_value(record.base)) in freed:
                for layer in record.layers[:1]:
                    if type(layer) is KeptName:  # no other name follows one that keeps the original
                        continue
                    states = layer.owner.states if layer.owner is not None else ()
                    for state in [state for state in states if state.change is layer.change]:
                        moves.add(self.moved(state, record, record.base)._replace(first=False))
        return moves

    def _find(
        self,
        objects: list[Any],
        modules: Optional[Modules] = None,
        signs: Sequence[Any] = (),
        keepers: Iterable[Any] = (),
        tables: Iterable[str] = (),
    ) -> list[tuple[Slot, Any]]:
        """Return the references to ``objects``, also those in a class next to a name that holds something else now."""
        homes = (self._homes.get(id(obj)) for obj in objects)
        # A patched alias, `user.relu`, holds a replacement now. The original that it held may be in classes next to it,
        # whose module has no name of the original any more: the replacement is the sign to look there.
        every = [*signs, *[record.by_value for record in self._patched_aliases()]]
        keepers = itertools.chain([signs, keepers], keepers, homes)  # looked at for a few objects only
        replaced = [record.base for record in self._journal if is_class(record.base) and record.layers]
        return references.find_references(objects, modules or loaded_modules(), every, keepers, replaced, tables)

    def _patched_aliases(self) -> list[Record]:
        """Return the records of patched names that are not the object's own."""
        with self._journal.lock:
            self._aliases = {number: record for number, record in self._aliases.items() if record.layers}
            return list(self._aliases.values())

    def origin(self, slot: Slot, gone: Sequence[Retired]) -> Optional[Record]:
        """The record of the slot that ``slot`` has its value from; ``None`` where that is its own, or still there."""
        old = gone[0].old
        there = [(record, layer.change) for record, layer in self._journal.makers(old)]
        # an alias may not have moved on yet
        left = [(r.record, r.change) for r in gone if r.record.by_value is not old]
        record = self._likeliest(slot, old, [*there, *left])
        return None if any(record is maker for maker, _ in there) else record

    def _likeliest(self, slot: Slot, value: Any, made: Iterable[tuple[Record, Change]]) -> Optional[Record]:
        """Of records whose slots hold or held ``value``, the one from which ``slot`` has it; ``None`` if it is its own.

        One of the same name is the likeliest, then one that is no item, then one where it was put rather than made.
        """
        others = [(record, change) for record, change in made if record.slot.identity != slot.identity]
        candidates = [(record, change) for record, change in others if not self.is_own(slot, value, change)]
        candidates.sort(key=lambda c: (c[0].slot.key != slot.key, c[0].slot.space == "item", c[1].makes_product))
        return candidates[0][0] if candidates else None

    def _is_home(self, target: Target, value: Any, named: tuple[str, str], record: Record) -> bool:
        if not has_identity(value) or record.base is ABSENT:
            return False  # an inherited object is at home in the base class, and other classes inherit it too
        module, name = named
        if record.slot.name == f"{module}:{name}":
            return True
        if not references.is_home(target, value):
            return False
        if not name or module.startswith(f"{target.module}."):
            return True
        # where its own name leads elsewhere because that was patched, it is at home there still
        try:
            slot = find_slot(Target.parse(f"{module}:{name}"), sys.modules[module], may_be_absent=True)
            patched = self._journal.find(slot)
        except (LookupError, DeclarationError):
            return True
        return patched is None or patched is record or held_value(patched.original) is not value

    def forget_unused(self, name: str, module: ModuleType, spaces: Sequence[Any]) -> None:
        """See :meth:`patchcore.engine.journal.Journal.forget_unused`."""
        self._journal.forget_unused(name, module, spaces, [self._aliases])
        self._patched_aliases()

    def forget(self) -> None:
        """Drop all facts about replacements; called when no patch is in force any more."""
        self._homes.clear()
        self._aliases.clear()

    def is_own(self, slot: Slot, value: Any, change: Change) -> bool:
        """True if ``slot`` holds ``value``, a replacement of ``change``, independently of the patch."""
        if change.enters_registry:  # no name takes a class from a registry's table by value
            return True
        module, name = references.name_of(value)
        if change.makes_product:  # it does not exist without the patch, unless a factory returned an existing object
            return slot.name == f"{module}:{name}" and module.partition(".")[0] != change.target.root
        if slot.identity in self._homes.get(id(value), (None, {}))[1]:
            return True
        if slot.name == f"{module}:{name}":
            return True
        tail = module.rpartition(".")[2]
        if not change.target.path and not name and slot.key == tail != change.target.module.rpartition(".")[2]:
            return True  # a module that stands for another one, under its own name
        root = module.partition(".")[0]
        return slot.name.partition(":")[0].partition(".")[0] == root and root != change.target.root

    def unreachable(self, applications: Iterable[Application], find: FindHolders) -> dict[int, list[str]]:
        """Return, by ``id`` of the change's state, the places that hold a replaced object and cannot be rebound.

        Args:
            applications: whose changes.
            find: looks for them; see the hook ``find_holders``.
        """
        with self._journal.lock:
            originals: dict[int, ChangeState] = {}
            for application in applications:
                for record in self._journal.records_of(application):
                    if isinstance(record.slot, BodySlot):
                        continue  # all holders of the function follow
                    state = next((s for s in application.states if record.slot.name in s.slots), None)
                    original = held_value(record.original)
                    if state is not None and has_identity(original) and references.is_home(state.target, original):
                        originals.setdefault(id(original), state)
            held = [o for o in (held_value(record.original) for record in self._journal) if id(o) in originals]
            layers = [layer for record in self._journal for layer in record.layers]
            sources = [_source(layer) for layer in layers if layer.change is not None]  # None: of other code
            ours = [part for value in (*(layer.product for layer in layers), *sources) for part in _parts(value)]
            active = {id(layer.owner): layer.owner for layer in layers if layer.owner is not None}.values()
            kept = {name for application in active for state in application.states for name in state.kept}
        found: dict[int, list[str]] = {}
        for original, kind, where in find(held, ours):
            if where not in kept:
                found.setdefault(id(originals[id(original)]), []).append(f"{kind} {where}")
        return found

    def keep(self, application: Application, name: str, module: ModuleType) -> None:
        """Bind the names in a module that ``Patch(keep=...)`` lists to the original, after the module was imported.

        Args:
            application: in force.
            name: of the module.
            module: its body has run, and may have taken the names from patched slots.
        """
        for target in [target for target in map(Target.parse, application.patch.keep) if target.module == name]:
            try:
                slot = find_slot(target, module)
            except (TargetError, TargetNotFound):
                continue
            with self._journal.lock:
                known = self._journal.find(slot)
                if known is not None and known.layers and type(known.layers[-1]) is KeptName:
                    slot.write(known.top)  # the module was reloaded
                elif not self._journal.looks_after(slot):
                    self._keep(application, _as_reference(slot, slot.read()))

    def _keep(self, application: Application, slot: Slot) -> None:
        """Bind ``slot`` to the original again if it took a value that ``application`` has written."""
        held = slot.read()
        for record in self._journal.records_of(application):
            state = next((s for s in application.states if record.slot.name in s.slots), None)
            if state is None:
                continue
            if isinstance(record.slot, BodySlot) and references.means(held, record.slot.owner):
                self.keep_name(application, state, record, slot)
                return
            if not isinstance(record.slot, BodySlot) and has_identity(held) and held is record.by_value:
                slot.write(held_value(record.original))
                state.kept += () if slot.name in state.kept else (slot.name,)
                return

    def bind_name(self, state: ChangeState, record: Record, name: Slot) -> None:
        """Make ``name`` follow ``record``, which ``state`` has written, unless another patch writes it."""
        if not self._journal.looks_after(name):
            self._journal.follow(record, name)
            state.rebound += (name.name,)

    def keep_name(self, application: Application, state: ChangeState, record: Record, name: Slot) -> None:
        """Write the original of a function whose body is patched to one name that holds the function.

        Args:
            application, state: the patch and the change that has patched the body.
            record: of the body.
            name: the slot. It gets a copy of its own, which the journal can tell from the copies of other slots.
        """
        build = functools.partial(_copy_of_original, record)
        self._journal.push(name, KeptName(application, state.change, build(), name.read(), build))
        state.kept += () if name.name in state.kept else (name.name,)

    def _bind(self, slot: Slot, held: Any, moves: Moves, reads: dict[int, set[tuple[int, str]]]) -> None:
        """Make ``slot`` follow if its object was replaced; keep it if a replacement reads the original there."""
        candidates = moves.of(held)
        if not candidates:
            return
        # The search ran without the lock, so the name may have been bound anew since. Of a patched name the base
        # counts: the layers on top of it stay, and are built again on the base.
        patched = self._journal.find(slot)
        if slot.read() is not held if patched is None else held_value(patched.base) is not held:
            return
        candidates = [move for move in candidates if self._reaches(move, slot)]
        if not candidates:
            return
        while candidates:  # where the replacement was replaced again, in an alias, follow the last
            move, record = candidates[0], candidates[0].record
            candidates = [m for m in moves.of(record.by_value) if m.goes_on(record)]
        key = id(move.record)
        if key not in reads:
            sources = [_source(layer) for layer in move.record.layers if layer.change is not None]
            reads[key] = {name for s in sources if s is not None for name in references.names_read_by(s)}
        means_original = (id(namespace_of(slot.owner)), slot.key) in reads[key] or _is_kept(slot, held, move.record)
        if means_original or _is_base(slot, held):
            move.state.kept += (slot.name,)
        else:
            self._journal.follow(move.record, slot)
            move.state.rebound += (slot.name,)

    def _reaches(self, move: Move, slot: Slot) -> bool:
        patched = self._journal.find(slot)
        if patched is move.record or (type(slot) is EntrySlot and slot.table not in move.state.extensions.tables):
            return False
        followed = self._journal.followed(slot)
        taken = self._journal.looks_after(slot) if patched is None else followed is not None
        if taken and not move.goes_on(followed):
            return False
        # a name that has a replacement as its own does not follow the patched slot, nor the other way round
        own = [change for change in move.changes if self.is_own(slot, move.old, change)]
        return not move.changes or bool(own) == (move.source is None)


def _copy_of_original(record: Record, below: Any = None, slot: Optional[Slot] = None) -> Any:
    return copy_of(record.original)


def _keepers(moves: Moves) -> Iterator[Any]:
    """Return the objects of the engine that refer to originals and replacements of ``moves``.

    Since Python 3.13 it is a change that refers to its fields, before that its namespace.
    """
    for move in moves:
        yield from (move, move.record)
        if not move.state.change.makes_product:  # otherwise it holds neither an original nor the value of the slot
            yield from (move.state.change, namespace_of(move.state.change))
        for layer in move.record.layers:
            yield from (layer, layer.product)


def _may_follow(slot: Slot, tables: Iterable[str]) -> bool:
    """Return whether :func:`references.find_references` may find ``slot``."""
    if isinstance(slot, ItemSlot):
        return isinstance(slot, EntrySlot) or is_entry(slot.name, tables)
    return isinstance(slot, (NamespaceSlot, ClassSlot)) and issubclass(type(slot.owner), (ModuleType, type))


def _is_kept(slot: Slot, held: Any, record: Record) -> bool:
    """True if a patch of ``record`` keeps the original under the name ``slot``.

    Either ``Patch(keep=...)`` lists the name, or it is a global of the replacement's own package that is not called
    like the original: ``from ops import p2p as _original_p2p``. In the package that is patched, and in the program's
    script, such an alias is rebound like other names.
    """
    name = references.name_of(held)[1].rpartition(".")[2]
    renamed = type(slot) is NamespaceSlot and slot.key not in (name, record.slot.key)
    package = slot.name.partition(":")[0].partition(".")[0]
    layers = [layer for layer in record.layers if layer.owner is not None]
    if any(slot.name in layer.owner.patch.keep for layer in layers):
        return True
    changes = [layer for layer in layers if package not in ("__main__", layer.change.target.root)] if renamed else []
    return any(references.root_of(_source(layer)) == package for layer in changes)


def _is_base(slot: Slot, held: Any) -> bool:
    """Return whether ``slot`` is a name of the class ``held`` in a module with classes that derive from it.

    ``Base.__init__(self)`` and ``super(Base, self)`` in such a class need ``held``, and not its replacement.
    """
    if not is_class(held) or not isinstance(slot.owner, ModuleType):
        return False
    module = slot.name.partition(":")[0]
    classes = [value for value in list((namespace_of(slot.owner) or {}).values()) if is_class(value)]
    own = (klass for klass in classes if class_namespace(klass).get("__module__") == module)
    return any(base is held for klass in own for base in mro(klass))


def _as_reference(slot: Slot, raw: Any) -> Slot:
    """Return ``slot``, which holds ``raw``, so that it is read and written as a by-value reference."""
    return StaticSlot.of(slot.owner, slot.key, slot.name, raw) if type(slot) is ClassSlot else slot


def _foreign(state: ChangeState, record: Optional[Record] = None) -> list[Any]:
    """The replacement of a change when it exists without the patch and is loaded, in a list; empty otherwise."""
    if state.change.makes_product:
        return []
    if state.change.by_hand:
        value = held_value(record.top) if record is not None else None
    else:
        value = _loaded(state.change.source)
    return [value] if has_identity(value) else []


def _source(layer: Layer) -> Any:
    """Return the object that has the code of a layer: the function of its author, or the product if written by hand."""
    return layer.product if layer.change.by_hand else _loaded(layer.change.source)


def _parts(value: Any) -> Iterator[Any]:
    """Yield a replacement and its parts: the function in a ``staticmethod``, the methods of a class."""
    yield from (value, held_value(value), *references.functions_of(value))


def _loaded(source: Any) -> Any:
    """The object a change refers to, ``None`` while its module is not loaded."""
    if type(source) is not Target:
        return source
    module = executed_module(source.module)
    if not source.path:
        return module
    try:
        return held_value(find_slot(source, module).lookup()) if module is not None else None
    except Exception:  # resolving it properly, later, raises the error with the reason
        return None
