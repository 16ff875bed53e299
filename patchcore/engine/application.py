"""An application: one patch in force, with the progress of each of its changes and the Patchers that hold it.

The engine creates an :class:`Application` when the first Patcher applies a patch, and shares it with later ones, so a
patch is never written twice. Each change has a :class:`ChangeState`, because the changes of one patch may wait for
different modules: one is written now, another when its module is imported. The application keeps the extensions of the
Patcher that created it. :func:`record_of` makes the immutable record for reports from these states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Callable, Optional, Protocol

from patchcore.declare.changes import Change, SlotChange, Wait
from patchcore.declare.patch import Patch
from patchcore.declare.target import Target
from patchcore.engine.importing import how_missed
from patchcore.errors import describe_error
from patchcore.objects.extensions import NONE, Extensions
from patchcore.objects.modules import executed_module
from patchcore.planning.conditions import APPLY, OFF
from patchcore.planning.plan import PlannedPatch
from patchcore.planning.provenance import Provenance
from patchcore.process import importer_of
from patchcore.report import APPLIED, FAILED, PENDING, REVERTED, SKIPPED, ChangeRecord, PatchRecord

__all__ = ["Application", "ChangeState", "Control", "Holder", "record_of"]

#: The status of a patch that was not tried, by its verdict where the words differ.
_STATUSES = {APPLY: PENDING, OFF: SKIPPED}


class Holder(Protocol):
    """The owner of patches in force, a Patcher: the engine calls it when a later import completes or fails a patch."""

    def completed(self, application: Application) -> None:
        """The last change that waited for an import is written."""

    def failed(self, application: Application) -> None:
        """A change failed and the application was undone; may raise, which fails the apply or the import."""


class Control(Protocol):
    """The part of a change that stays active until it is withdrawn, for a change that does not wait for its module."""

    def catch_up(self, name: str, module: ModuleType) -> None:
        """Called after its module was imported without it: make the edits that are still possible."""

    def withdraw(self) -> list[str]:
        """End it and return notes on leftovers. Called under the journal's lock, and again if it was interrupted."""


class ChangeState:
    """The progress of one change of an application.

    Attributes:
        awaits: the module to wait for; ``None`` if the change must be written before its module is imported.
        undo: undoes edits that are not in the journal yet; ``None`` if there are none.
        defers_to: the module that defines the replacement, as long as its import must end first.
        late: how the import of its module was missed, if it was.
        followed: earlier targeted modules, which provide the target lazily from the module that is targeted now.
    """

    def __init__(self, change: Change, target: Target, extensions: Extensions = NONE) -> None:
        self.change = change
        self.target = target
        self.extensions = extensions  # those of its application
        # A stub of a missing module, for example, must be in force before that module is imported.
        self.awaits: Optional[str] = target.module if change.waits else None
        self.status = PENDING
        self.reason = ""
        self.slots: tuple[str, ...] = ()
        self.rebound: tuple[str, ...] = ()
        self.kept: tuple[str, ...] = ()
        self.written_in: Optional[ModuleType] = None
        self.control: Optional[Control] = None
        self.undo: Optional[Callable[[], None]] = None
        self.defers_to = ""
        self.late = ""
        self.followed: tuple[str, ...] = ()

    @property
    def missed(self) -> str:
        """Why it still waits although its module is loaded; empty where that is not so."""
        if self.status != PENDING:
            return ""
        name = self.waits_for
        how = how_missed(name)
        if how:
            return f"{name} was imported without patchcore seeing it: {how}"
        if self.defers_to and name not in sys.modules and importer_of(name) is None:
            return (
                f"{self.target.module} was imported, but {name}, which defines the replacement, could not be imported"
            )
        return ""

    @property
    def waits_for(self) -> str:
        """The module whose import it waits for while it is pending."""
        return self.defers_to or self.target.module

    @property
    def is_open(self) -> bool:
        """True for a change that must be there before its module, and is not there yet."""
        return self.awaits is None and self.control is None and self.status == PENDING

    def withdraw(self) -> list[str]:
        """Undo its edits outside the journal and end its control of imports; return notes on leftovers."""
        if self.undo is not None:
            self.undo()
            self.undo = None
        notes = [] if self.control is None else self.control.withdraw()
        self.control = None
        return notes

    def wrote(self, slot: str) -> None:
        """Remember that ``slot`` carries the change; a module that is imported again has slots of the same name."""
        if slot not in self.slots:
            self.slots += (slot,)

    def record(self, unreachable: tuple[str, ...] = (), *, counted: bool = False) -> ChangeRecord:
        """Return an immutable copy for reports.

        Args:
            unreachable: the places found to be so.
            counted: true to include the number of calls.
        """
        reason, missed = self.reason, self.missed if self.status == PENDING else ""
        if missed:
            reason = f"{missed}; Patcher.refresh() tries to patch it now"
        elif self.status == PENDING and not reason:
            reason = f"waits for the import of {self.waits_for}{' to finish' if self.defers_to else ''}"
        elif self.late and self.status == APPLIED:
            missed = f"patched late: {self.late}"
            reason = "; ".join(filter(None, (reason, missed)))
        elif self.followed and self.status == APPLIED and not reason:
            reason = f"{self.followed[0]} provides it lazily"
        target = self.change.subject(self.target)
        places = self.slots, self.rebound, self.kept, unreachable
        counter = self.change.counter if counted and isinstance(self.change, SlotChange) else None
        calls, replaced = (counter.calls, counter.replaced) if counter is not None and counter.in_use else (None, None)
        return ChangeRecord(self.change.kind, target, self.status, reason, *places, calls, replaced, missed)


class Application:
    """One patch in force: its changes, and the Patchers that hold it.

    Attributes:
        extensions: those of the Patcher that applied it first; they stay the same for later holders.
        shared: true if every Patcher that applies the patch holds this application.
        counting: true if the calls of its targets are counted.
        modules: the modules its changes wait for, in order.
        keeps: the modules with names that it keeps, ``Patch(keep=...)``.
        expects: the modules for whose import it is called.
        ignored: true if its failure is ignored by the policy.
        announced: true if the holders know that it is complete.
        waits: nothing is written as long as there are any, one for each holder that has to wait.
    """

    def __init__(
        self,
        patch: Patch,
        targets: Sequence[Target],
        provenance: Provenance,
        *,
        shared: bool = True,
        counting: bool = False,
        extensions: Extensions = NONE,
        wait: Optional[Wait] = None,
    ) -> None:
        self.patch = patch
        self.waits: tuple[Wait, ...] = () if wait is None else (wait,)
        self.extensions = extensions
        self.shared = shared
        self.provenance = provenance
        self.counting = counting
        changes = [change.counted() for change in patch.changes] if counting else patch.changes
        self.states = [ChangeState(change, target, extensions) for change, target in zip(changes, targets)]
        self.modules = tuple(dict.fromkeys([state.awaits for state in self.states if state.awaits is not None]))
        self.keeps = tuple(dict.fromkeys([Target.parse(name).module for name in patch.keep]))
        self.holders: list[Holder] = []
        self.expects: list[str] = []
        self.error: Optional[Exception] = None
        self.ended = False
        self.ignored = False
        self.announced = False

    def add(self, changes: Sequence[SlotChange]) -> None:
        """Add changes that were found later; a module that was imported just now has them, say."""
        found = [change.counted() if self.counting else change for change in changes]
        self.states = [*self.states, *(ChangeState(each, each.target, self.extensions) for each in found)]
        awaited = [*self.modules, *(change.target.module for change in found)]
        self.modules = tuple(dict.fromkeys(awaited))

    @property
    def in_force(self) -> bool:
        """False once it was undone, because it failed or because it has no holder any more."""
        return self.error is None and not self.ended

    @property
    def status(self) -> str:
        """The status of the patch: that of its changes taken together."""
        if self.error is not None:
            return FAILED
        if self.ended:
            return REVERTED
        statuses = {state.status for state in self.states}
        if PENDING in statuses:
            return PENDING
        return SKIPPED if statuses == {SKIPPED} else APPLIED

    @property
    def awaited(self) -> Iterator[str]:
        """The modules it has not seen executed: those of its pending changes, and the packages around them."""
        return (name for state in self.states if state.status == PENDING for name in (*self.expects, state.waits_for))

    def __str__(self) -> str:
        return self.patch.name

    def __repr__(self) -> str:
        return f"<Application {self.patch.name} {self.status}>"


def record_of(
    entry: PlannedPatch,
    application: Optional[Application],
    *,
    veto: Optional[str],
    applied: bool,
    counted: bool,
    places: Mapping[int, Sequence[str]],
    remarks: tuple[str, ...] = (),
) -> PatchRecord:
    """Return the outcome of one patch of a plan.

    Args:
        entry: the patch in the plan.
        application: its application, ``None`` if it was not tried.
        veto: the reason of a plugin that vetoed it, ``None`` without a veto.
        applied: true if the Patcher is applied.
        counted: true to include the numbers of calls.
        places: by ``id`` of a change's state, the places that still hold its original.
        remarks: see :class:`patchcore.report.PatchRecord`.
    """
    who = (entry.provenance.plugin, entry.provenance.distribution, entry.provenance.version)
    if application is None:
        status, reason = _STATUSES.get(entry.verdict, entry.verdict), entry.reason
        if veto is not None:
            status, reason = SKIPPED, veto
        elif entry.verdict == APPLY and not applied:
            status, reason = SKIPPED, "not tried"
        changes: tuple[ChangeRecord, ...] = tuple(
            ChangeRecord(c.kind, str(t), status) for c, t in zip(entry.patch.changes, entry.targets)
        )
    else:
        status, reason = application.status, ""
        changes = tuple([s.record(tuple(places.get(id(s), ())), counted=counted) for s in application.states])
        if application.error is not None:
            reason = describe_error(application.error)
        elif not applied:
            reason = "" if application.ended else "another Patcher still applies it"
            status = REVERTED
        elif application.waits:
            reason = application.waits[0].reason
            changes = tuple([change._replace(reason=reason, missed="") for change in changes])
        elif status in (PENDING, SKIPPED):
            reason = "; ".join(dict.fromkeys(c.reason for c in changes if c.status == status))
            written = sum(change.status == APPLIED for change in changes)
            reason = f"changes applied: {written} of {len(changes)}; {reason}" if written else reason
        elif status == APPLIED:
            reason = "; ".join(dict.fromkeys([change.missed for change in changes if change.missed]))
            kept = {name for change in changes for name in change.kept}
            lost = [name for name in entry.patch.keep if name not in kept]
            remarks += tuple(
                [
                    f"keep: {name} held nothing that the patch changes when its module was imported"
                    for name in lost
                    if executed_module(Target.parse(name).module) is not None
                ]
            )
    asked = status != SKIPPED or entry.asked_for or (entry.verdict == APPLY and application is None)
    asked = asked and not (application is not None and application.ignored)
    return PatchRecord(entry.patch.name, status, reason, *who, changes, remarks, asked)
