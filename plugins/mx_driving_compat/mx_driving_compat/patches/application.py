"""Applies patches of the API: each becomes a patch of patchcore, and one Patcher of patchcore applies them together."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

from mx_driving_compat.messages.logger import LOGGER_NAME, patcher_logger
from mx_driving_compat.patches.paths import TABLES
from patchcore import Context, Patch, Patcher, PatchError, Settings, Skip, Target, TargetNotFound, UnknownName, hookimpl
from patchcore.plugin import (
    ANY_PATCH,
    APPLIED,
    FAILED,
    LOCAL_PROVENANCE,
    PENDING,
    SKIPPED,
    Candidate,
    ChangeRecord,
    Choice,
    Declaration,
    PatchRecord,
    Plugins,
    Provenance,
    add_own,
    describe_error,
    select_patches,
)

__all__ = ["Ordered", "Outcome", "Run", "Unit", "revert_with_run", "runs"]

# A migration may patch the standard library, which this package uses meanwhile.
add_own("mx_driving_compat")

Prepare = Callable[[], Optional[Skip]]


class Outcome(NamedTuple):
    """The outcome of one patch of the API.

    Args:
        status: applied, skipped or failed, as :mod:`patchcore.report` has it; for :meth:`Run.outcomes`, also pending.
        reason: why it was not applied, or a remark on how it was.
    """

    status: str
    reason: str = ""


class Unit(NamedTuple):
    """A patch of patchcore, and the patches of the API that it stands for.

    Args:
        patch: of the core.
        members: one for each change; or one for all changes, whose first decides.
        provenance: who contributes it.
        prepare: called when it is its turn, before anything is written; returns why it is not to be applied.
        skips: errors of the patch that mean that it does not fit.
        like: name of an earlier unit that makes the same changes; this one is then skipped.
        plain: whether it can be applied without a question when it is its turn: there is nothing to prepare, and it
            calls no function of the migration.
    """

    patch: Patch
    members: Sequence[Any]
    provenance: Provenance = LOCAL_PROVENANCE
    prepare: Optional[Prepare] = None
    skips: tuple[type[Exception], ...] = (TargetNotFound,)
    like: str = ""
    plain: bool = False

    @property
    def own(self) -> bool:
        """True for a patch of the migration, false for one of a plugin."""
        return self.provenance is LOCAL_PROVENANCE


class Run:
    """Units that are applied in order and reverted together.

    Args:
        units: in the order of application.
        settings: the user's, of which those apply that are about these units.
    """

    def __init__(self, units: Iterable[Unit], settings: Optional[Settings] = None) -> None:
        self.units, self._repeated = _in_order(units)
        self._inner: list[Union[Run, Patcher]] = []  # applied by functions of patches meanwhile
        self._gate = _Gate(self.units, self._inner)
        self._patcher = _CorePatcher(self.units, settings or Settings(), self._gate)

    def apply(self) -> list[tuple[Any, Outcome]]:
        """Apply the units; return each patch of the API with its outcome.

        A patch that is applied by hand meanwhile belongs to this run.

        Raises:
            PatchcoreError: the plan itself is impossible.
        """
        revert_with_run(self)
        _stack.runs.append(self)
        try:
            report = self._patcher.apply()
        finally:
            _stack.runs.pop()
            self._gate.open = False
        _runs.append(self)
        records = {record.name: record for record in report.patches}
        outcomes = {u.patch.name: list(self._outcomes(u, records[u.patch.name])) for u in self.units}
        return [pair for unit, name in self._told() for pair in zip(unit.members, outcomes[name])]

    def revert(self) -> None:
        """Undo everything, the last applied first."""
        _revert(self._inner)
        self._patcher.revert()

    def records(self) -> tuple[PatchRecord, ...]:
        """Return patchcore's records of the units, with the statuses of the API: one that does not fit is skipped."""
        return tuple(map(self._record, self._patcher.report().patches))

    def outcomes(self) -> Iterator[tuple[Any, Outcome]]:
        """Yield each patch of the API with its current status: an import may have completed it, or made it fail."""
        records = {record.name: record for record in self.records()}
        for unit, name in self._told():
            record = records[name]
            whole = record.status == FAILED or name in self._gate.outcomes or not record.changes
            for position, member in enumerate(unit.members):
                change = None if whole or position >= len(record.changes) else record.changes[position]
                if change is None or (change.status == SKIPPED and not change.reason):
                    yield member, Outcome(record.status, record.reason)
                else:
                    yield member, Outcome(change.status, change.reason)

    def _told(self) -> Iterator[tuple[Unit, str]]:
        """Yield each unit with the name of the unit whose outcome it has: an earlier one may make the same changes."""
        named = [*((unit, unit.patch.name) for unit in self.units), *((unit, unit.like) for unit in self._repeated)]
        for unit, name in named:
            while name in self._gate.repeated:
                name = self._gate.repeated[name]
            yield unit, name

    def _record(self, record: PatchRecord) -> PatchRecord:
        outcome = self._gate.outcomes.get(record.name)
        if outcome is None or outcome.status == APPLIED:
            return record
        return record._replace(status=outcome.status, reason=outcome.reason)

    def _outcomes(self, unit: Unit, record: PatchRecord) -> Iterable[Outcome]:
        decided = self._gate.outcomes.get(unit.patch.name) or _whole(record)
        for _, change in zip(unit.members, record.changes or (None,) * len(unit.members)):
            yield decided or _of_change(change)


def _revert(runs: list[Union[Run, Patcher]], start: int = 0) -> None:
    while len(runs) > start:
        runs.pop().revert()


class _Gate:
    """Prepares each unit of a run before it is applied, and notes failures."""

    def __init__(self, units: Iterable[Unit], inner: list[Union[Run, Patcher]]) -> None:
        self._units = {unit.patch.name: unit for unit in units}
        self._inner = inner
        self._inner_before = 0  # their number when the last unit's turn came
        self.outcomes: dict[str, Outcome] = {}
        self.repeated: dict[str, str] = {}  # the name of the earlier unit with the same changes, by unit
        self.open = True  # while the run is being applied

    def before_apply(self, patch: Patch) -> Optional[Skip]:
        """Prepare a unit whose turn it is; return why it is not applied."""
        unit = self._units[patch.name]
        self._inner_before = len(self._inner)
        try:
            skip = unit.prepare() if unit.prepare is not None else None
        except Exception as error:
            self.outcomes[patch.name] = Outcome(FAILED, describe_error(error))
            return Skip(describe_error(error))
        if skip is not None:
            self.outcomes[patch.name] = Outcome(SKIPPED, skip.reason)
            return skip
        like = unit.like
        while like in self.outcomes:  # the earlier one did not fit
            like = self._units[like].like
        if like:
            self.repeated[patch.name] = like
            skip = Skip(f"does what {like} does")
        return skip

    def on_failure(self, patch: Patch, error: Exception) -> str:
        """Note that a unit has failed; return the policy."""
        unit = self._units[patch.name]
        if self.open:
            _revert(self._inner, self._inner_before)
        skipped = isinstance(error, unit.skips)
        reason = describe_error(error)
        self.outcomes[patch.name] = Outcome(SKIPPED if skipped else FAILED, reason)
        if not self.open and not skipped:  # in an import, long after the summary
            try:
                patcher_logger.failed_now(patch.name, reason)
            except PatchError:
                return "raise"
        return "ignore"


class _Stack(threading.local):
    """The runs that this thread is currently applying, the innermost last."""

    def __init__(self) -> None:
        self.runs: list[Run] = []


_stack = _Stack()
#: The latest runs, for reports. A program may apply patches in a loop, so the number is limited.
_runs: deque[Run] = deque(maxlen=100)


def revert_with_run(applied: Union[Run, Patcher]) -> None:
    """Revert ``applied`` together with the run that this thread is applying: a patch has applied it by hand."""
    if _stack.runs:
        _stack.runs[-1]._inner.append(applied)


def runs() -> tuple[Run, ...]:
    """Return the latest runs of this process, also reverted ones."""
    return tuple(_runs)


def _whole(record: PatchRecord) -> Optional[Outcome]:
    """Return the outcome of a unit as a whole, ``None`` if each change has its own."""
    if record.status == FAILED:
        return Outcome(FAILED, record.reason)
    if record.status == SKIPPED and all(change.status == SKIPPED and not change.reason for change in record.changes):
        return Outcome(SKIPPED, record.reason)
    return None


def _of_change(change: Optional[ChangeRecord]) -> Outcome:
    if change is None or change.status == APPLIED:
        return Outcome(APPLIED)
    if change.status == PENDING:
        return Outcome(APPLIED, change.reason.replace("waits for the import of", "on import of"))
    if change.kind == "call":  # the function ran, and changed nothing that patchcore can see
        return Outcome(APPLIED)
    return Outcome(SKIPPED, change.reason)


class Ordered(Patch):
    """A patch with its place in a run, by default that in a run without patches of plugins.

    The place does not count for equality: two runs share an equal patch.
    """

    @classmethod
    def of(cls, patch: Patch, *, after: tuple[str, ...] = (ANY_PATCH,), before: tuple[str, ...] = ()) -> Patch:
        made = object.__new__(cls)
        made.__dict__.update(patch.__dict__, after=after, before=before, priority=0)
        return made

    def _key(self) -> tuple[Any, ...]:
        return Declaration._key(self.evolve(after=(), before=()))

    __eq__ = Declaration.__eq__
    __hash__ = Patch.__hash__


def _in_order(units: Iterable[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Return the units with distinct names, and with the order of the migration's own patches declared.

    Among themselves, patches of plugins keep the order that they declare. One of them that makes the same changes as an
    earlier one does is left out, and returned in the second list.
    """
    named: list[Unit] = []
    repeated: list[Unit] = []
    taken: set[str] = set()
    latest: dict[Target, int] = {}  # by target, the position of the last unit that changes it
    for unit in units:
        targets = {change.target for change in unit.patch.changes}
        position = -1 if latest.keys().isdisjoint(targets) else max(latest.get(target, -1) for target in targets)
        if position >= 0 and named[position].patch.changes == unit.patch.changes:
            unit = unit._replace(like=named[position].patch.name)
        if unit.like and not unit.own:
            repeated.append(unit)
            continue
        name, count = unit.patch.name, 1
        while name in taken:
            count += 1
            name = f"{unit.patch.name}+{count}"
        taken.add(name)
        latest.update(dict.fromkeys(targets, len(named)))
        named.append(unit if name == unit.patch.name else unit._replace(patch=unit.patch.evolve(name=name)))
    return list(_declared(named)), repeated


def _declared(units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield the units with their order declared.

    A patch of the migration names the patches of plugins on both sides of it. Patches of the migration need not name
    each other: they have one priority and come from one place, and such patches are applied in the given order.
    """
    plugins = [unit.patch.name for unit in units if not unit.own]
    earlier = 0
    for unit in units:
        if not unit.own:
            earlier += 1
        elif plugins or type(unit.patch) is not Ordered:
            patch = Ordered.of(unit.patch, after=(ANY_PATCH, *plugins[:earlier]), before=tuple(plugins[earlier:]))
            unit = unit._replace(patch=patch)
        yield unit


class _CorePatcher(Patcher):
    """patchcore's Patcher of a run.

    Args:
        units: of the run.
        settings: the user's.
        gate: of the run.
    """

    has_own_report = True

    def __init__(self, units: Sequence[Unit], settings: Settings, gate: _Gate) -> None:
        candidates = [Candidate(unit.patch, unit.provenance) for unit in units]
        own = all(unit.own for unit in units)
        choices = [choice for choice in settings.choices if _means_any(choice.name, candidates)]
        if choices or not own:  # a migration's own patches are applied without being chosen
            choices = [*(Choice(True, unit.patch.name, LOGGER_NAME, -1) for unit in units), *choices]
        names = {name for unit in units for name in unit.patch.names} if settings.options else ()
        super().__init__(
            candidates,
            plugins=_plugins(own, all(unit.plain and not unit.like for unit in units)),
            settings=Settings(
                on_failure="ignore",
                choices=tuple(choices),
                options={name: table for name, table in settings.options.items() if table and name in names},
                count=settings.count,
            ),
        )
        self.gate = gate


class _Failures:
    """A plugin of all runs: tells the gate of the run that a unit has failed."""

    @hookimpl
    def on_failure(self, patch: Patch, error: Exception, context: Context) -> str:
        gate: _Gate = context.patcher.gate
        return gate.on_failure(patch, error)


class _Extensions:
    """A plugin of all runs: brings the writers for patches of the API."""

    @hookimpl
    def registry_tables(self) -> Sequence[str]:
        return TABLES

    @hookimpl
    def register_writers(self) -> dict[str, str]:
        transfer = "mx_driving_compat.predefined.transfer"
        return {f"{transfer}:OnImportOfTorch": f"{transfer}:Applier"}


class _Turns:
    """A plugin of the runs whose units are not all plain: asks the gate of the run before each unit."""

    @hookimpl
    def before_apply(self, patch: Patch, context: Context, planning: bool) -> Optional[Skip]:
        gate: _Gate = context.patcher.gate
        return None if planning else gate.before_apply(patch)


@functools.cache
def _plugins(own: bool, plain: bool) -> Plugins:
    """Return the plugins of every run: those that ship with patchcore, which no setting and no installation changes.

    Args:
        own: whether a run has patches of the migration only. A built-in plugin may add hooks for patches of plugins;
            these hooks need not be called for others.
        plain: whether all units of the run are. The gate is then asked about failures only.
    """
    plugins = Plugins(discover=False)
    plugins.manager.register(_Failures(), LOGGER_NAME)
    plugins.manager.register(_Extensions(), f"{LOGGER_NAME}.extensions")
    if not plain:
        plugins.manager.register(_Turns(), f"{LOGGER_NAME}.turns")
    return plugins


def _means_any(name: str, candidates: Sequence[Candidate]) -> bool:
    try:
        return bool(select_patches(name, candidates))
    except UnknownName:
        return False
