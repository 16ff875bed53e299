"""The engine: writes patches to slots, now or when their modules are imported, whole or not at all.

One engine serves the process. An :class:`~patchcore.application.Application` lives until the last Patcher
that holds it lets go. Code of others (imports of replacements, factories, legacy functions) never runs while the
journal's lock is held: a product is made first, then written if nothing moved meanwhile, else made again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Optional

from patchcore import references
from patchcore.application import Application, ChangeState, Holder
from patchcore.binding import has_identity, reference
from patchcore.changes import Call, Change, Replace, Skip, SlotChange
from patchcore.errors import ConflictError, TargetNotFound, conflict_message, describe_error, did_you_mean
from patchcore.importing import ImportWatch
from patchcore.journal import Journal, Layer, Record, Retired
from patchcore.modules import executed_module, loaded_modules, missing_ancestor, namespace, submodule_names
from patchcore.patch import Patch
from patchcore.provenance import Provenance
from patchcore.report import APPLIED, FAILED, PENDING, REVERTED, SKIPPED
from patchcore.snapshot import Edit, Snapshot
from patchcore.target import ABSENT, Slot, Target, find_slot

__all__ = ["ENGINE", "Engine"]

Modules = Mapping[str, ModuleType]


class Move(NamedTuple):
    """A slot was written: by-value references to what it held, ``old``, are to follow."""

    application: Application
    state: ChangeState
    target: Target
    record: Record
    old: Any


class Engine:
    """Applies and releases patches in this process."""

    def __init__(self) -> None:
        self.journal = Journal()
        self._lock = self.journal.lock
        self._watch = ImportWatch(self._imported)
        self._active: dict[str, list[Application]] = {}  # by patch name
        self._waiting: dict[str, list[Application]] = {}  # by module, in order of application
        self._executed: dict[str, ModuleType] = {}  # bodies that have run inside imports that have not returned yet
        self._snapshots: list[Snapshot] = []
        # id(replacement) -> the slots that are its home, which a revert must not take for references
        self._homes: dict[int, dict[tuple[int, str, Any], Slot]] = {}

    def acquire(
        self, patch: Patch, targets: Sequence[Target], provenance: Provenance, holder: Holder, moves: list[Move]
    ) -> Application:
        """Put ``patch`` in force for ``holder`` and write the changes whose modules are loaded.

        Args:
            patch: what to apply; the same patch already in force is shared, not stacked.
            targets: the target of each change, with its module.
            provenance: who contributes the patch.
            holder: is told about later imports, and lets go with :meth:`release`.
            moves: gets what was written, for :meth:`rebind`.
        """
        with self._lock:
            application = self._in_force(patch, provenance)
            if application is None:
                application = Application(patch, targets, provenance)
                self._active.setdefault(patch.name, []).append(application)
                for name in application.modules:
                    self._expect(name, application)
            if holder not in application.holders:
                application.holders.append(holder)
        self._advance(application, application.modules, moves)
        return application

    def rebind(
        self, moves: Sequence[Move], modules: Optional[Modules] = None, waiting: Iterable[Application] = ()
    ) -> None:
        """Bind the by-value references to what ``moves`` replaced to the replacements, in one pass for all of them.

        Args:
            moves: what was written.
            modules: where to look; all loaded modules by default.
            waiting: applications whose replacements are to be seen at home now, before anybody takes them from a slot.
        """
        old = {id(move.old): move for move in moves if self._is_followed(move)}
        foreign = {id(value): value for move in moves for value in self._foreign(move.state)}
        foreign.update((id(v), v) for app in waiting for state in app.states for v in self._foreign(state))
        if not old and not foreign:
            return
        wanted = [move.old for move in old.values()] + [v for key, v in foreign.items() if key not in old]
        found = references.find_references(wanted, modules or loaded_modules())
        reads: dict[int, set[tuple[int, str]]] = {}
        with self._lock:
            for slot, held in found:
                if self.journal.find(slot) is not None:
                    continue
                move = old.get(id(held))
                if move is None:
                    self._homes.setdefault(id(held), {})[slot.identity] = slot
                    continue
                if not move.record.layers or slot.read() is not held:
                    continue
                key = id(move.state)
                if key not in reads:
                    reads[key] = references.names_read_by(move.state.change.source)
                if (id(namespace(slot.owner)), slot.key) in reads[key]:
                    move.state.kept.append(slot.name)
                else:
                    self.journal.follow(move.record, slot)
                    move.state.rebound.append(slot.name)

    def release(self, applications: Iterable[Application], holder: Holder) -> list[str]:
        """Let ``holder`` go of ``applications``; what nobody else holds is undone, last applied first.

        Returns notes on slots where somebody else had written on top of a patch.
        """
        with self._lock:
            ending = []
            for application in applications:
                if holder in application.holders:
                    application.holders.remove(holder)
                    if not application.holders:
                        ending.append(application)
            notes = self._undo(ending)
            for application in ending:
                application.ended = True
                for state in application.states:
                    if state.status in (APPLIED, PENDING):
                        state.status, state.reason = REVERTED, "was never imported" if state.status == PENDING else ""
        return notes

    def sweep(self, applications: Iterable[Application]) -> None:
        """Write changes whose module is there by another way than an import that could be watched."""
        moves: list[Move] = []
        for application in applications:
            if application.status == PENDING and not application.ended:
                self._advance(application, application.modules, moves)
        self.rebind(moves)

    def unreachable(self, applications: Iterable[Application]) -> dict[int, list[str]]:
        """Return, by ``id`` of the change's state, the places that still hold what was replaced and cannot be rebound."""
        with self._lock:
            originals: dict[int, ChangeState] = {}
            for application in applications:
                for record in self.journal.records_of(application):
                    state = next((s for s in application.states if record.slot.name in s.slots), None)
                    original = reference(record.original)
                    if state is not None and has_identity(original) and references.is_home(state.target, original):
                        originals.setdefault(id(original), state)
            held = [
                reference(record.original) for record in self.journal if id(reference(record.original)) in originals
            ]
            ours = [reference(layer.product) for record in self.journal for layer in record.layers]
        found: dict[int, list[str]] = {}
        for original, place in references.find_unreachable(held, ours):
            found.setdefault(id(originals[id(original)]), []).append(f"{place.kind} {place.where}")
        return found

    def _in_force(self, patch: Patch, provenance: Provenance) -> Optional[Application]:
        for application in self._active.get(patch.name, ()):
            same_plugin = provenance.distribution is not None and provenance == application.provenance
            if application.patch is patch or same_plugin or application.patch == patch:
                return application
        return None

    def _expect(self, name: str, application: Application) -> None:
        application.expects.append(name)
        self._waiting.setdefault(name, []).append(application)
        self._watch.watch(name)
        if name in sys.modules and self._module(name) is None:
            self._watch.watch_running(name)

    def _forget(self, application: Application) -> None:
        self._active[application.patch.name].remove(application)
        if not self._active[application.patch.name]:
            del self._active[application.patch.name]
        for name in application.expects:
            self._waiting[name].remove(application)
            if not self._waiting[name]:
                del self._waiting[name]
            self._watch.unwatch(name)
        application.expects.clear()

    def _imported(self, name: str, module: ModuleType, fresh: Modules) -> None:
        for snapshot in self._snapshots:
            snapshot.add(name, module)
        with self._lock:
            waiting = list(self._waiting.get(name, ()))
        moves: list[Move] = []
        self._executed[name] = module
        try:
            for application in waiting:
                was = application.status
                self._advance(application, application.modules, moves)
                if was == PENDING and application.status == APPLIED:
                    for holder in list(application.holders):
                        holder.completed(application)
        finally:
            self._executed.pop(name, None)
        # what was made elsewhere may have been taken from there by anybody
        local = [move for move in moves if getattr(move.old, "__module__", None) == name]
        self.rebind(local, fresh)
        self.rebind([move for move in moves if move not in local])

    def _module(self, name: str) -> Optional[ModuleType]:
        """Return module ``name`` when its body has run, else ``None``."""
        return self._executed.get(name) or executed_module(name)

    def _advance(self, application: Application, modules: Sequence[str], moves: list[Move]) -> None:
        """Write the changes of ``application`` whose modules have been executed and that are not written there yet."""
        state = None
        mark = len(moves)
        try:
            for name in modules:
                module = self._module(name)
                for state in application.states:
                    if state.target.module != name or application.ended or application.error:
                        continue
                    if module is None:
                        self._check_findable(application, name)
                    elif state.written_in is not module:
                        self._write(application, state, module, moves)
        except Exception as error:
            del moves[mark:]
            self._fail(application, state, error)

    def _check_findable(self, application: Application, name: str) -> None:
        """Raise when module ``name`` can never be imported; wait for its parent where that may yet make it."""
        missing = None if name in sys.modules else missing_ancestor(name)
        if missing is None:
            return
        parent = missing.rpartition(".")[0]
        if parent and self._module(parent) is None:
            with self._lock:
                if parent not in application.expects:
                    self._expect(parent, application)
            return
        if not parent:
            raise TargetNotFound(f"no module named {missing!r} is installed; install it or disable the patch")
        raise TargetNotFound(f"{parent} has no module {missing!r}{did_you_mean(missing, submodule_names(parent))}")

    def _write(self, application: Application, state: ChangeState, module: ModuleType, moves: list[Move]) -> None:
        if isinstance(state.change, Call):
            self._call(application, state, state.change, module, moves)
        elif isinstance(state.change, SlotChange):
            while not self._write_slot(application, state, state.change, module, moves):
                pass
        else:
            raise NotImplementedError(f"no engine for {type(state.change).__name__} changes")

    def _write_slot(
        self, application: Application, state: ChangeState, change: SlotChange, module: ModuleType, moves: list[Move]
    ) -> bool:
        """Write one change; return False when the slot moved while the product was made."""
        slot = change.find_slot(state.target, module)
        below = slot.lookup()
        made = self.journal.maker(below) if slot.read() is not ABSENT else None
        through = (
            made[0]
            if made is not None and made[1].owner is application and _same_action(made[1].change, change)
            else None
        )
        if through is None:
            self._refuse_conflict(application, slot, made)
            product = change.build(below, slot)
        with self._lock:
            if application.ended or application.error or state.written_in is module:
                return True
            if slot.lookup() is not below:
                return False
            state.written_in = module
            if through is not None:  # a re-export of what this very change made: it carries the patch already
                if through.slot.identity != slot.identity:
                    self.journal.follow(through, slot)
                state.status, state.reason = APPLIED, f"through {through.slot.name}"
            elif isinstance(product, Skip):
                state.status, state.reason = SKIPPED, product.reason
            else:
                build = None if isinstance(change, Replace) and change.create else change.build
                record = self.journal.push(slot, Layer(application, change, product, below, build))
                state.status = APPLIED
                moves.append(Move(application, state, state.target, record, reference(below)))
            state.slots.append(slot.name)
        return True

    def _call(
        self, application: Application, state: ChangeState, change: Call, module: ModuleType, moves: list[Move]
    ) -> None:
        with self._lock:
            if application.ended or application.error or state.written_in is module:
                return
            state.written_in = module
        snapshot = Snapshot(state.target.root)
        self._snapshots.append(snapshot)
        try:
            with self._watch.watching_root(state.target.root):
                change.run(module)
        except Exception:
            for edit in snapshot.edits():
                edit.slot.write(edit.before)
            raise
        finally:
            self._snapshots.remove(snapshot)
        with self._lock:
            for edit in snapshot.edits():
                self._adopt(application, state, change, edit, moves)
            state.status = APPLIED
            if not state.slots:
                state.status, state.reason = SKIPPED, "the function changed nothing"

    def _adopt(self, application: Application, state: ChangeState, change: Call, edit: Edit, moves: list[Move]) -> None:
        record = self.journal.adopt(edit.slot, Layer(application, change, edit.after, edit.before), edit.before)
        state.slots.append(edit.slot.name)
        if edit.before is not ABSENT and edit.after is not ABSENT:
            moves.append(Move(application, state, edit.target, record, reference(edit.before)))

    def _refuse_conflict(self, application: Application, slot: Slot, made: Optional[tuple[Record, Layer]]) -> None:
        record = self.journal.find(slot)
        owners = (
            [layer.owner for layer in record.layers]
            if record is not None
            else [made[1].owner]
            if made is not None
            else []
        )
        for other in owners:
            if (
                other is None
                or other is application
                or not set(map(id, other.holders)) & set(map(id, application.holders))
            ):
                continue
            if not application.patch.stacks_with(other.patch):
                through = f" (reached through {made[0].slot.name})" if record is None and made is not None else ""
                raise ConflictError(conflict_message(slot.name + through, other, application))

    def _fail(self, application: Application, state: Optional[ChangeState], error: Exception) -> None:
        with self._lock:
            if application.error is not None or application.ended:
                return
            application.error = error
            self._undo([application])
            for other in application.states:
                if other is state:
                    other.status, other.reason = FAILED, describe_error(error)
                elif other.status in (APPLIED, PENDING):
                    other.reason = "undone" if other.status == APPLIED else "not tried"
                    other.status = REVERTED if other.status == APPLIED else SKIPPED
                    other.reason += f" because {state.change} failed" if state is not None else ""
                other.rebound, other.kept = [], []
            holders = list(application.holders)
        for holder in holders:
            holder.failed(application)

    def _undo(self, applications: Sequence[Application]) -> list[str]:
        for application in applications:
            self._forget(application)
        retired, notes = self.journal.remove(applications)
        self._rebind_retired(retired)
        return notes

    def _rebind_retired(self, retired: Sequence[Retired]) -> None:
        """Names that took a replacement from a patched slot get what the slot holds now."""
        by_id = {id(r.old): r for r in retired}
        for slot, held in references.find_references([r.old for r in by_id.values()], loaded_modules()):
            gone = by_id[id(held)]
            if self.journal.find(slot) is None and not self._is_at_home(slot, gone):
                slot.write(gone.record.by_value)
        for key in by_id:
            if not self.journal.maker(by_id[key].old):
                self._homes.pop(key, None)

    def _is_at_home(self, slot: Slot, gone: Retired) -> bool:
        """Tell whether ``slot`` holds a replacement that exists without the patch as its own, not from the patched slot."""
        if not _is_foreign(gone.change):
            return False
        if slot.identity in self._homes.get(id(gone.old), ()):
            return True
        root = (getattr(gone.old, "__module__", None) or "").partition(".")[0]
        return slot.name.partition(":")[0].partition(".")[0] == root and root != gone.change.target.root

    def _foreign(self, state: ChangeState) -> list[Any]:
        """The replacement of a change when it exists without the patch and is loaded, in a list; empty otherwise."""
        change = state.change
        if not _is_foreign(change):
            return []
        value = change.source
        if isinstance(value, Target):
            module = executed_module(value.module)
            try:
                value = reference(find_slot(value, module).lookup()) if module is not None else None
            except Exception:  # resolving it properly, later, will say why
                return []
        return [value] if has_identity(value) else []

    @staticmethod
    def _is_followed(move: Move) -> bool:
        return (
            bool(move.record.layers)
            and has_identity(move.old)
            and move.record.by_value is not ABSENT
            and references.is_home(move.target, move.old)
        )


def _is_foreign(change: Any) -> bool:
    """Tell whether what a change puts in its slot exists without the patch."""
    return isinstance(change, SlotChange) and not change.makes_product


def _same_action(first: Any, second: Change) -> bool:
    return type(first) is type(second) and (first.source is second.source or first.source == second.source)


#: The engine of this process.
ENGINE = Engine()
