"""The view model: the reports of a run's processes, merged patch by patch and target by target."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, TypeVar

from patchcore.builtin.report.merge import findings
from patchcore.builtin.report.reading import Process
from patchcore.builtin.report.words import who
from patchcore.builtin.run.roles import RANK
from patchcore.builtin.shared.finding import Finding
from patchcore.report import APPLIED, FAILED, PENDING, REVERTED, SKIPPED

__all__ = [
    "STATUSES",
    "ChangeView",
    "PatchView",
    "Run",
    "Standing",
    "TargetView",
    "Variant",
    "origin_of",
    "view_of",
]

#: Statuses, the most important first.
STATUSES = (FAILED, REVERTED, APPLIED, PENDING, SKIPPED)

_T = TypeVar("_T")

#: (processes with equal data, that data): the data is a patch, a change or a target of their reports.
_Shared = tuple[list[Process], Mapping[str, Any]]


class Standing(NamedTuple):
    """A status that some processes have.

    Args:
        status: of a patch or change.
        reason: for it.
        processes: whose, in words.
    """

    status: str
    reason: str
    processes: str


@dataclass(frozen=True)
class ChangeView:
    """One change of a patch, in all processes that have it.

    Args:
        kind, target: see :class:`patchcore.report.ChangeRecord`; so are ``slots`` to ``unreachable``.
        standings: the most telling first.
        calls: how often the target was called, ``None`` if calls were not counted.
        replaced: how many of these calls the replacement got, ``None`` for all or if calls were not counted.
    """

    kind: str
    target: str
    standings: tuple[Standing, ...]
    slots: tuple[str, ...]
    rebound: tuple[str, ...]
    kept: tuple[str, ...]
    unreachable: tuple[str, ...]
    calls: Optional[int]
    replaced: Optional[int]

    @property
    def hits(self) -> Optional[int]:
        """How many calls the replacement got, ``None`` if calls were not counted."""
        return self.calls if self.replaced is None else self.replaced

    @property
    def has_reasons(self) -> bool:
        """True if any status has a reason."""
        return any(standing.reason for standing in self.standings)


@dataclass(frozen=True)
class PatchView:
    """One patch, in all processes that have it.

    Args:
        name, origin, plugin: of the patch, see :class:`patchcore.report.PatchRecord`.
        standings: the most telling first.
        only_on: the processes that have it, in words; empty when all do.
        differs: whether ranks do not have the same status, or not all of them have it.
        changes: in order.
        remarks: of plugins: a target that has changed, for example.
        options: that are not empty, as text.
        applied_at: seconds since the start of each process that has applied it.
    """

    name: str
    origin: str
    plugin: str
    standings: tuple[Standing, ...]
    only_on: str
    differs: bool
    changes: tuple[ChangeView, ...]
    remarks: tuple[str, ...]
    options: Mapping[str, str]
    applied_at: tuple[float, ...]

    @property
    def status(self) -> str:
        """The most telling status that it has anywhere."""
        return self.standings[0].status

    @property
    def calls(self) -> Optional[int]:
        """How often its targets were called, ``None`` if calls were not counted."""
        return _sum(change.calls for change in self.changes)

    @property
    def hits(self) -> Optional[int]:
        """How many calls its replacements got; ``None`` if calls were not counted."""
        return _sum(change.hits for change in self.changes)

    @property
    def never_hit(self) -> bool:
        """True when calls were counted, and there were none for it to answer."""
        return self.status == APPLIED and self.hits == 0

    @property
    def is_uniform(self) -> bool:
        """True when all changes have the status of the patch everywhere."""
        return all([s.status for s in change.standings] == [self.status] for change in self.changes)


class Variant(NamedTuple):
    """The layers on a target in some processes.

    Args:
        layers: from the outermost on, as :meth:`patchcore.builtin.explain.layers.TargetRecord.to_dict` has them.
        original: a place, likewise.
        processes: whose, in words.
    """

    layers: Sequence[Mapping[str, Any]]
    original: Mapping[str, Any]
    processes: str


class TargetView(NamedTuple):
    """A patched target.

    Args:
        target: its name.
        variants: one, unless processes differ.
    """

    target: str
    variants: tuple[Variant, ...]

    @property
    def root(self) -> str:
        """The package of the target."""
        return self.target.partition(":")[0].partition(".")[0]

    @property
    def is_stacked(self) -> bool:
        """True if it is patched several times."""
        return any(len(variant.layers) > 1 for variant in self.variants)


@dataclass(frozen=True)
class Run:
    """The content of a page.

    Args:
        processes: in order; the others are compared with the first.
        findings: the faults of the run.
        patches: in the order of the plan.
        targets: by name.
        counted: true if a process counted calls.
    """

    processes: Sequence[Process]
    findings: Sequence[Finding]
    patches: tuple[PatchView, ...]
    targets: tuple[TargetView, ...]
    counted: bool

    def who(self, group: Sequence[Process]) -> str:
        """Return which processes ``group`` is, in words."""
        return who(group, self.processes)

    @property
    def marks(self) -> list[str]:
        """The marks of all sections, see :class:`patchcore.report.Section`."""
        sections = (section for process in self.processes for section in process.content["sections"])
        return list(dict.fromkeys(section["mark"] for section in sections if section["mark"]))

    @property
    def by_status(self) -> dict[str, list[PatchView]]:
        """The patches of each status that some have."""
        found = {status: [patch for patch in self.patches if patch.status == status] for status in STATUSES}
        return {status: patches for status, patches in found.items() if patches}

    @property
    def never_hit(self) -> list[PatchView]:
        """The patches that were applied and whose replacements were never called."""
        return [patch for patch in self.patches if patch.never_hit]

    @property
    def alike(self) -> list[list[Process]]:
        """The processes in groups that have the same role, state, patches, manifest and program."""
        return _grouped(
            (
                (
                    content["role"],
                    content["finished"],
                    content["error"],
                    content["summary"],
                    content["digest"],
                    program,
                ),
                process,
            )
            for process in self.processes
            for content in [process.content]
            for program in [" ".join(content["environment"]["program"].split())]
        )

    @property
    def problems(self) -> list[Mapping[str, Any]]:
        """The problems of plugins, each once."""
        found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for problem in (problem for process in self.processes for problem in process.content["problems"]):
            found.setdefault((problem["plugin"], problem["where"], problem["message"]), problem)
        return list(found.values())

    @property
    def notes(self) -> list[str]:
        """The notes of all processes, each once."""
        return list(_union(process.content["notes"] for process in self.processes))

    @property
    def libraries(self) -> list[str]:
        """The names of the libraries that patches are for."""
        return sorted({name for process in self.processes for name in process.content["manifest"]["libraries"]})

    @property
    def plugins(self) -> Mapping[tuple[str, str], int]:
        """How many patches each plugin has, by plugin and distribution."""
        return Counter((patch.plugin, patch.origin) for patch in self.patches)

    @property
    def commands(self) -> list[str]:
        """The arguments of ``patchcore run``, quoted for a shell."""
        found = dict.fromkeys(tuple(process.content.get("arguments", ())) for process in self.processes)
        return [shlex.join(arguments) for arguments in found if arguments]

    @property
    def settings(self) -> list[tuple[str, str, str]]:
        """Name, value and origin of each setting."""
        found = (setting for process in self.processes for setting in process.content.get("settings", ()))
        return list(dict.fromkeys((each["name"], each["value"], each["origin"]) for each in found))

    def references(self, kind: str) -> list[tuple[str, str, str]]:
        """Return the names that are bound to a target by value, each with target and patch.

        Args:
            kind: ``rebound``, ``kept`` or ``unreachable``.
        """
        return [
            (name, change.target, patch.name)
            for patch in self.patches
            for change in patch.changes
            for name in getattr(change, kind)
        ]

    def values(self, *keys: str, missing: str = "") -> list[tuple[str, str]]:
        """Return each value that processes have in their reports, and which processes have it.

        Args:
            keys: where it is in a report.
            missing: the text where there is none.
        """
        groups: dict[str, list[Process]] = {}
        for process in self.processes:
            value: Any = process.content
            for key in keys:
                value = value.get(key)
            groups.setdefault(missing if value in (None, "") else str(value), []).append(process)
        return [(text, self.who(group)) for text, group in groups.items()]


def view_of(processes: Sequence[Process], unreadable: Iterable[Finding] = ()) -> Run:
    """Return the view of the run that ``processes``, at least one, took part in.

    Args:
        processes, unreadable: see :class:`patchcore.builtin.report.reading.Reports`.
    """
    by_name: dict[str, list[_Shared]] = {}
    groups = _alike(processes, lambda process: process.content["patches"])
    ranks = {id(group): sum(map(_is_rank, group)) for group in (processes, *groups)}
    for group in groups:
        for patch in group[0].content["patches"]:
            by_name.setdefault(patch["name"], []).append((group, patch))
    times = _times_applied(processes)
    patches = tuple(_patch(name, records, processes, times.get(name, ()), ranks) for name, records in by_name.items())
    found = any(change.calls is not None for patch in patches for change in patch.changes)
    return Run(processes, findings(processes, unreadable), patches, _targets(processes), found)


def origin_of(record: Mapping[str, Any]) -> str:
    """Return the distribution that a patch or layer comes from, or the plugin if it has none."""
    return f"{record['distribution']} {record['version'] or ''}".strip() if record["distribution"] else record["plugin"]


def _patch(
    name: str,
    records: Sequence[_Shared],
    everybody: Sequence[Process],
    applied_at: Sequence[float],
    ranks: Mapping[int, int],
) -> PatchView:
    """Return the view of one patch; ``ranks`` has the number of ranks in each group, by its ``id``."""
    first = records[0][1]
    changes: dict[tuple[str, str, int], list[_Shared]] = {}
    for group, patch in records:
        for number, change in enumerate(patch["changes"]):
            changes.setdefault((change["kind"], change["target"], number), []).append((group, change))
    options: dict[str, str] = {}
    for process in (process for group, _ in records for process in group):
        options = options or process.content["manifest"]["patches"].get(name, {}).get("options", {})
    having = [process for group, _ in records for process in group]
    statuses = {patch["status"] for group, patch in records if ranks[id(group)]}
    everywhere = sum(ranks[id(group)] for group, _ in records) in (0, ranks[id(everybody)])
    return PatchView(
        name,
        origin_of(first),
        first["plugin"],
        _standings(records, everybody),
        "" if len(having) == len(everybody) else who(having, everybody),
        len(statuses) > 1 or not everywhere,
        tuple(_change(kind, target, found, everybody) for (kind, target, _), found in changes.items()),
        _union(patch["remarks"] for _, patch in records),
        options,
        tuple(applied_at),
    )


def _change(kind: str, target: str, records: Sequence[_Shared], everybody: Sequence[Process]) -> ChangeView:
    return ChangeView(
        kind,
        target,
        _standings(records, everybody),
        _union(change["slots"] for _, change in records),
        _union(change["rebound"] for _, change in records),
        _union(change["kept"] for _, change in records),
        _union(change["unreachable"] for _, change in records),
        _sum(_times(change.get("calls"), group) for group, change in records),
        _sum(_times(change.get("replaced"), group) for group, change in records),
    )


def _standings(records: Iterable[_Shared], everybody: Sequence[Process]) -> tuple[Standing, ...]:
    groups: dict[tuple[str, str], list[Process]] = {}
    for group, record in records:
        groups.setdefault((record["status"], record["reason"]), []).extend(group)
    found = (Standing(status, reason, who(group, everybody)) for (status, reason), group in groups.items())
    return tuple(sorted(found, key=lambda standing: STATUSES.index(standing.status)))


def _targets(processes: Sequence[Process]) -> tuple[TargetView, ...]:
    holders = [process for process in processes if process.content.get("layers")]
    found: dict[str, list[_Shared]] = {}
    for group in _alike(holders, lambda process: process.content["layers"]):
        for target in group[0].content["layers"]:
            found.setdefault(target["target"], []).append((group, target))
    return tuple(TargetView(name, _variants(records, holders)) for name, records in sorted(found.items()))


def _variants(records: Sequence[_Shared], holders: Sequence[Process]) -> tuple[Variant, ...]:
    groups = _grouped((repr(target), (group, target)) for group, target in records)
    return tuple(
        Variant(
            same[0][1]["layers"],
            same[0][1]["original"],
            who([process for group, _ in same for process in group], holders),
        )
        for same in groups
    )


def _times_applied(processes: Sequence[Process]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for process in processes:
        for event in process.content.get("timeline", {}).get("events", ()):
            if event["kind"] == APPLIED:
                times.setdefault(event["subject"], []).append(event["at"])
    return times


def _grouped(keyed: Iterable[tuple[Hashable, _T]]) -> list[list[_T]]:
    groups: dict[Hashable, list[_T]] = {}
    for key, value in keyed:
        groups.setdefault(key, []).append(value)
    return list(groups.values())


def _is_rank(process: Process) -> bool:
    return bool(process.content["role"] == RANK)


def _alike(processes: Iterable[Process], part: Callable[[Process], Any]) -> list[list[Process]]:
    """Return the processes in groups whose reports are equal in one part; of many processes most are."""
    groups: list[tuple[Any, list[Process]]] = []
    for process in processes:
        own = part(process)
        for other, group in groups:
            if own == other:
                group.append(process)
                break
        else:
            groups.append((own, [process]))
    return [group for _, group in groups]


def _times(count: Optional[int], group: Sequence[Process]) -> Optional[int]:
    return None if count is None else count * len(group)


def _union(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for texts in lists for text in texts))


def _sum(counts: Iterable[Optional[int]]) -> Optional[int]:
    found = [count for count in counts if count is not None]
    return sum(found) if found else None
