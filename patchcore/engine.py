"""The engine: writes patches to slots, now or when their modules are imported, whole or not at all.

One engine serves the process. An :class:`~patchcore.application.Application` lives until the last Patcher
that holds it lets go. Code of others (imports of replacements, factories, legacy functions) never runs while the
journal's lock is held: a product is made first, then written if nothing moved meanwhile, else made again.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Optional

from patchcore.application import Application, ChangeState, Holder
from patchcore.changes import Call, Change, Replace, Skip, SlotChange
from patchcore.errors import ConflictError, PatchError, TargetNotFound, conflict_message, describe_error, did_you_mean
from patchcore.importing import ImportWatch
from patchcore.journal import Journal, Layer, Record
from patchcore.modules import executed_module, is_lazy, missing_ancestor, submodule_names
from patchcore.patch import Patch
from patchcore.provenance import Provenance
from patchcore.rebinding import Modules, Moves, Rebinder
from patchcore.references import StaticSlot
from patchcore.report import APPLIED, FAILED, PENDING, REVERTED, SKIPPED
from patchcore.snapshot import Edit, Snapshot
from patchcore.target import ABSENT, ClassSlot, Slot, Target

__all__ = ["ENGINE", "Engine"]


class Engine:
    """Applies and releases patches in this process."""

    def __init__(self) -> None:
        self.journal = Journal()
        self._lock = self.journal.lock
        self._rebinder = Rebinder(self.journal)
        self._watch = ImportWatch(self._imported)
        self._active: dict[str, list[Application]] = {}  # by patch name
        self._waiting: dict[str, dict[Application, None]] = {}  # by module, in order of application
        self._advancing = threading.local()  # the applications this thread is advancing
        self._executed: dict[str, ModuleType] = {}  # bodies that have run inside imports that have not returned yet
        self._snapshots: list[Snapshot] = []

    def after_fork(self) -> None:
        """Take locks back that other threads of the parent held when this process was forked."""
        self.journal.after_fork()
        self._lock = self.journal.lock
        self._watch.after_fork()

    @property
    def active(self) -> list[str]:
        """The names of the patches that are in force or wait for an import."""
        return list(self._active)

    def acquire(self, patch: Patch, targets: Sequence[Target], provenance: Provenance, holder: Holder) -> Application:
        """Put ``patch`` in force for ``holder``; :meth:`advance` writes what can be written.

        Args:
            patch: what to apply; the same patch already in force is shared, not stacked.
            targets: the target of each change, with its module.
            provenance: who contributes the patch.
            holder: is told about later imports, and lets go with :meth:`release`.
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
        return application

    def advance(self, application: Application, moves: Moves, holder: Optional[Holder] = None) -> None:
        """Write the changes of ``application`` whose modules have been executed and that are not written there yet.

        Args:
            application: in force; if a change fails, it is undone and its holders are told.
            moves: gets what was written, for :meth:`rebind`.
            holder: who asks; the others are told when the application has become complete.
        """
        under_way = self._advancing.__dict__.setdefault("applications", set())
        if application in under_way:
            return  # its own code, a factory say, imports what another patch waits for
        under_way.add(application)
        state = None
        try:
            for name in application.modules:
                module = self._module(name)
                if module is not None:
                    self._let_precede(application, name, module, moves)
                for state in application.states:
                    if state.target.module != name or not application.in_force:
                        continue
                    if module is None:
                        self._check_findable(application, name)
                    elif state.written_in is not module and not self._defers(application, state):
                        self._write(application, state, module, moves)
        except Exception as error:
            if not self._fail(application, state, error) and isinstance(error, PatchError):
                raise  # a patch failed, under the policy to raise, in an import that this one made
            return
        finally:
            under_way.discard(application)
        with self._lock:
            complete = application.status == APPLIED and not application.announced
            application.announced |= complete
            others = [other for other in application.holders if complete and other is not holder]
        for other in others:
            other.completed(application)

    def rebind(self, moves: Moves, waiting: Iterable[Application] = ()) -> None:
        """Bind by-value references to what ``moves`` replaced; see :meth:`patchcore.rebinding.Rebinder.rebind`."""
        self._rebinder.rebind(moves, waiting=waiting)
        if any(move.followed for move in moves):
            self._watch.after_imports_elsewhere(lambda name, module, fresh: self._rebinder.rebind(moves, fresh))

    def release(self, applications: Iterable[Application], holder: Holder) -> list[str]:
        """Let ``holder`` go of ``applications``; what nobody else holds is undone, last applied first.

        Returns notes on slots where somebody else had written on top of a patch.
        """
        with self._lock:
            ending = []
            for application in applications:
                if holder in application.holders:
                    application.holders.remove(holder)
                    if not application.holders and application.in_force:
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
        moves = Moves()
        for application in applications:
            if application.status == PENDING and any(name in sys.modules for name in application.expects):
                self.advance(application, moves)
        self.rebind(moves)

    def unreachable(self, applications: Iterable[Application]) -> dict[int, list[str]]:
        """See :meth:`patchcore.rebinding.Rebinder.unreachable`."""
        return self._rebinder.unreachable(applications)

    def _in_force(self, patch: Patch, provenance: Provenance) -> Optional[Application]:
        for application in self._active.get(patch.name, ()):
            same_plugin = provenance.distribution is not None and provenance == application.provenance
            if application.patch is patch or same_plugin or application.patch == patch:
                return application
        return None

    def _let_precede(self, application: Application, name: str, module: ModuleType, moves: Moves) -> None:
        """Advance the applications that came to wait for module ``name`` earlier: another thread may not have yet."""
        with self._lock:
            earlier = itertools.takewhile(lambda other: other is not application, self._waiting.get(name, ()))
            states = [(other, state) for other in earlier for state in other.states if state.target.module == name]
        for other in dict.fromkeys(other for other, state in states if state.written_in is not module):
            self.advance(other, moves)

    def _expect(self, name: str, application: Application) -> None:
        application.expects.append(name)
        self._waiting.setdefault(name, {})[application] = None
        self._watch.watch(name)
        if name in sys.modules and self._module(name) is None:
            self._watch.watch_running(name)

    def _forget(self, application: Application) -> None:
        self._active[application.patch.name].remove(application)
        if not self._active[application.patch.name]:
            del self._active[application.patch.name]
        for name in application.expects:
            del self._waiting[name][application]
            if not self._waiting[name]:
                del self._waiting[name]
            self._watch.unwatch(name)
        application.expects.clear()

    def _imported(self, name: str, module: ModuleType, fresh: Modules) -> None:
        for snapshot in list(self._snapshots):
            snapshot.add(name, module)
        with self._lock:
            waiting = list(self._waiting.get(name, ()))
            self._renew(name, module, waiting)
        moves = Moves()
        self._executed[name] = module
        try:
            for application in waiting:
                self.advance(application, moves)
        finally:
            self._executed.pop(name, None)
        # what was made elsewhere may have been taken from there by anybody
        local = {id(move) for move in moves if getattr(move.old, "__module__", None) == name}
        self._rebinder.rebind(Moves(move for move in moves if id(move) in local), fresh)
        self._rebinder.rebind(Moves(move for move in moves if id(move) not in local))

    def _renew(self, name: str, module: ModuleType, waiting: Iterable[Application]) -> None:
        """Prepare for writing again in a module whose body ran anew in the same namespace: a reload."""
        written = [s for a in waiting for s in a.states if s.target.module == name and s.written_in is module]
        if written:
            retired, _ = self.journal.renew(module, self._rebinder.origin)
            self._rebinder.retire(retired)
            for state in written:
                state.written_in = None

    def _module(self, name: str) -> Optional[ModuleType]:
        """Return module ``name`` when its body has run, else ``None``."""
        return self._executed.get(name) or executed_module(name)

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

    def _defers(self, application: Application, state: ChangeState) -> bool:
        """Tell whether the replacement's module is being imported, by a caller of ours or a thread, and wait for that.

        It may import the target's library itself, and has not got to defining the replacement then.
        """
        source = state.change.source
        name = source.module if isinstance(source, Target) else None
        if name not in sys.modules or is_lazy(sys.modules[name]) or self._module(name) is not None:
            return False
        with self._lock:
            if application.in_force and name not in application.expects:
                self._expect(name, application)
            state.reason = f"waits for the import of {name} to end"
        return self._module(name) is None  # it has not ended meanwhile

    def _write(self, application: Application, state: ChangeState, module: ModuleType, moves: Moves) -> None:
        if isinstance(state.change, Call):
            self._call(application, state, state.change, module, moves)
        elif isinstance(state.change, SlotChange):
            while not self._write_slot(application, state, state.change, module, moves):
                pass
        else:
            raise NotImplementedError(f"no engine for {type(state.change).__name__} changes")

    def _write_slot(
        self, application: Application, state: ChangeState, change: SlotChange, module: ModuleType, moves: Moves
    ) -> bool:
        """Write one change; return False when the slot moved while the product was made."""
        slot = change.find_slot(state.target, module)
        self._rebinder.catch_up(slot, moves)
        own, below = slot.read(), slot.lookup()
        carrier = self._carrier(application, change, slot, below)
        product = None
        if carrier is None:
            self._refuse_conflict(application, slot, own)
            try:
                product = change.build(below, slot)
            except Exception:
                if self._defers(application, state):
                    return True
                raise
        with self._lock:
            if not application.in_force or state.written_in is module:
                return True
            if slot.lookup() is not below:
                return False
            state.written_in = module
            state.status, state.reason = APPLIED, ""
            state.wrote(slot.name)
            if carrier is not None:
                self._carry(carrier, slot, own, state)
            elif isinstance(product, Skip):
                state.status, state.reason = SKIPPED, product.reason
            else:
                build = None if isinstance(change, Replace) and change.create else change.build
                record = self.journal.push(slot, Layer(application, change, product, below, build))
                moves.add(self._rebinder.moved(state, record, below))
        return True

    def _carrier(self, application: Application, change: Change, slot: Slot, below: Any) -> Optional[Record]:
        """The record through which ``slot`` carries this very change already: a re-export, or what a base class has."""
        record = self.journal.find(slot)
        if record is not None and any(e.owner is application and e.change is change for e in record.layers):
            return record
        return self.journal.carrier(below, application, change)

    def _carry(self, carrier: Record, slot: Slot, own: Any, state: ChangeState) -> None:
        if carrier.slot.identity == slot.identity:
            return
        state.reason = f"through {carrier.slot.name}"
        if own is not ABSENT and self.journal.find(slot) is None:
            if isinstance(slot, ClassSlot):
                slot = StaticSlot.of(slot.owner, slot.key, slot.name, own)
            self.journal.follow(carrier, slot)

    def _call(
        self, application: Application, state: ChangeState, change: Call, module: ModuleType, moves: Moves
    ) -> None:
        with self._lock:
            if not application.in_force or state.written_in is module:
                return
            state.written_in = module
        snapshot = Snapshot(state.target.root)
        self._snapshots.append(snapshot)
        done = False
        try:
            with self._watch.watching_root(state.target.root):
                change.run(module)
            done = True
        finally:
            self._snapshots.remove(snapshot)
            with self._lock:
                keep = done and application.in_force
                for edit in snapshot.edits():
                    if self.journal.wrote(edit.slot, edit.after):
                        continue  # by a patch of a module that the function imported
                    if keep:
                        self._adopt(application, state, change, edit, moves)
                    else:
                        edit.slot.write(edit.before)
        with self._lock:
            if application.in_force:
                state.status = APPLIED
                if not state.slots:
                    state.status, state.reason = SKIPPED, "the function changed nothing"

    def _adopt(self, application: Application, state: ChangeState, change: Call, edit: Edit, moves: Moves) -> None:
        layer = Layer(application, change, edit.after, edit.before)
        record = self.journal.adopt(edit.slot, layer, edit.before)
        state.wrote(edit.slot.name)
        if edit.before is not ABSENT and edit.after is not ABSENT:
            moves.add(self._rebinder.moved(state, record, edit.before))

    def _refuse_conflict(self, application: Application, slot: Slot, own: Any) -> None:
        record = self.journal.find(slot)
        layers = [] if record is None else record.layers
        through = ""
        if record is None and own is not ABSENT:
            for made, layer in self.journal.makers(own):
                if not self._rebinder.is_own(slot, own, layer.change):
                    layers, through = made.layers, f" (reached through {made.slot.name})"
        for layer in layers:
            other = layer.owner
            if other is None or other is application or application.patch.stacks_with(other.patch):
                continue
            if any(holder in application.holders for holder in other.holders):
                raise ConflictError(conflict_message(slot.name + through, other, application))

    def _fail(self, application: Application, state: Optional[ChangeState], error: Exception) -> bool:
        """Undo the application and tell its holders; return False when it is not in force any more."""
        with self._lock:
            if not application.in_force:
                return False
            application.error = error
            self._undo([application])
            because = f" because {state.change} failed" if state is not None else ""
            for other in application.states:
                if other is state:
                    other.status, other.reason = FAILED, describe_error(error)
                elif other.status == APPLIED:
                    other.status, other.reason = REVERTED, f"undone{because}"
                elif other.status == PENDING:
                    other.status, other.reason = SKIPPED, f"not tried{because}"
                other.rebound, other.kept = [], []
            holders = list(application.holders)
        refusal = None
        for holder in holders:
            try:
                holder.failed(application)
            except Exception as raised:  # the others are to hear of it too
                refusal = refusal or raised
        if refusal is not None:
            raise refusal
        return True

    def _undo(self, applications: Sequence[Application]) -> list[str]:
        retired, notes = self.journal.remove(applications, self._rebinder.origin)
        self._rebinder.retire(retired)
        for application in applications:
            self._forget(application)
        if not self._active:
            self._rebinder.forget()
        return notes


#: The engine of this process.
ENGINE = Engine()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ENGINE.after_fork)
