"""Drift: have the targets of a patch changed since its author recorded their fingerprints?

The installed sources are compared with the fingerprints that the plugin carries, see
:mod:`patchcore.builtin.drift.recorded`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from patchcore.builtin.drift.recorded import (
    ABSENT_SOURCE,
    UNSEEN,
    UNVERSIONED,
    Fingerprint,
    Library,
    Recorded,
    recorded_by,
    version_key,
)
from patchcore.builtin.drift.replacements.note import KINDS, Note
from patchcore.declare.changes import SlotChange, Wrap
from patchcore.declare.patch import Patch
from patchcore.declare.slots import Slot
from patchcore.declare.target import Target
from patchcore.engine.engine import ENGINE
from patchcore.errors import NotShown, PluginError, TargetNotFound, Unseen
from patchcore.objects.printable import counted
from patchcore.planning.conditions import Environment
from patchcore.planning.plan import PlannedPatch
from patchcore.report import Remark

if TYPE_CHECKING:
    from patchcore.builtin.drift.fingerprint import Originals
    from patchcore.builtin.drift.replacements.judging import Judge

__all__ = [
    "BODY_CHANGED",
    "GONE",
    "SIGNATURE_CHANGED",
    "UNCHANGED",
    "UNKNOWN",
    "Comparison",
    "Drift",
    "fingerprinted",
    "remarks",
    "remarks_of",
    "remarks_on",
]

UNCHANGED = "unchanged"
BODY_CHANGED = "body changed"
SIGNATURE_CHANGED = "signature changed"
GONE = "gone"
UNKNOWN = "unknown"

_KINDS = {GONE: KINDS[0], SIGNATURE_CHANGED: KINDS[1], BODY_CHANGED: KINDS[4]}

#: The reason of a comparison after which nothing else can be known of the library.
_NO_LIBRARY = "in no distribution"


class Comparison(NamedTuple):
    """One target, compared with its recorded fingerprint.

    Args:
        target: with its module.
        status: ``unchanged``, ``body changed``, ``signature changed``, ``gone`` or ``unknown``.
        library: the installed library that has it.
        recorded: the version that it is compared with, ``None`` if there is none.
        detail: the change, or the reason why it is unknown.
        difference: the diff of the recorded and the installed source, if both are available.
        reason: in a few words why the target was not compared, if ``status`` is ``unknown``.
        kind: of the finding: ``gone``, ``signature`` or ``body``; empty if the change is no finding.
        notes: what the replacement means for it: further findings, some in the place of that of the change.
    """

    target: Target
    status: str
    library: Library
    recorded: Optional[str] = None
    detail: str = ""
    difference: str = ""
    reason: str = ""
    kind: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def drifted(self) -> bool:
        """True where it is known to have changed."""
        return self.status in (BODY_CHANGED, SIGNATURE_CHANGED, GONE)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a plain dictionary."""
        return {
            "target": str(self.target),
            "status": self.status,
            "library": self.library.name,
            "version": self.library.version,
            "recorded": self.recorded,
            "detail": self.detail,
            "difference": self.difference,
            "reason": self.reason,
            "notes": [note._asdict() for note in self.notes],
        }

    def __str__(self) -> str:
        since = f" since {self.library.name} {self.recorded}" if self.drifted else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.target}: {self.status}{since}{detail}"


class Drift:
    """Compares libraries with the fingerprints that plugins carry.

    Args:
        original_of: returns the unpatched value of a slot; by default its present value, for a process without patches.
        environment: the installed libraries; looked up by default.
        originals: of the libraries; those that are installed by default.
        recorded: compare with these fingerprints, instead of those that the plugins carry.
    """

    def __init__(
        self,
        original_of: Optional[Callable[[Slot], Any]] = None,
        environment: Optional[Environment] = None,
        *,
        originals: Optional[Originals] = None,
        recorded: Optional[Recorded] = None,
    ) -> None:
        self._environment = environment or Environment()
        self._original_of = original_of
        self._known = originals
        self._recorded = recorded

    def of(self, entry: PlannedPatch, *, skip_recorded: bool = False) -> list[Comparison]:
        """Return a comparison for each target of one patch; none if its plugin carries no fingerprints.

        Args:
            entry: of a plan, with any verdict; its library is installed.
            skip_recorded: skip targets whose installed version is recorded, and do not read replacements.

        Raises:
            PluginError: the file cannot be read.
        """
        recorded = self._recorded or recorded_by(entry.provenance)
        if recorded is None:
            return []
        judge = None if skip_recorded else self._judge(recorded)
        found = []
        for change, target in fingerprinted(entry.patch, entry.targets):
            library = Library.of(target, self._environment)
            if skip_recorded and recorded.has(library, target):
                continue
            compared = self._compare(change, target, library, recorded, entry.patch.name)
            if judge is not None and compared.reason != _NO_LIBRARY:
                compared = _judged(change, compared, recorded, entry, judge)
            found.append(compared)
        return found

    def notes_on(self, entry: PlannedPatch) -> list[Note]:
        """Return the findings that need no fingerprint of a target: calls, names that are read, what is added.

        Args:
            entry: of a plan; its library is installed.

        Raises:
            PluginError: the file cannot be read.
        """
        recorded = self._recorded or recorded_by(entry.provenance)
        judge = self._judge(recorded)
        found = (
            []
            if recorded is not None
            else [
                note
                for change, target in fingerprinted(entry.patch, entry.targets)
                for note in judge.without_fingerprint(change, target)
            ]
        )
        return found + self._additions(entry, judge)

    def notes_on_additions(self, entry: PlannedPatch) -> list[Note]:
        """Return the findings on names that a patch adds, in libraries whose version is not recorded; quick.

        Args:
            entry: of a plan; its library is installed.

        Raises:
            PluginError: the file cannot be read.
        """
        recorded = self._recorded or recorded_by(entry.provenance)
        if recorded is None or not any(
            isinstance(change, SlotChange) and change.adds for change in entry.patch.changes
        ):
            return []
        return self._additions(entry, self._judge(recorded), skip_recorded=True)

    def _additions(self, entry: PlannedPatch, judge: Judge, *, skip_recorded: bool = False) -> list[Note]:
        return [
            note
            for change, target in zip(entry.patch.changes, entry.targets)
            if isinstance(change, SlotChange) and change.adds
            for note in judge.of_addition(change, target, entry.provenance, skip_recorded=skip_recorded)
        ]

    def _compare(self, change: Any, target: Target, library: Library, recorded: Recorded, patch: str) -> Comparison:
        nearest = recorded.nearest(library, target)
        if nearest is None:
            why = f"no version of {library.name} is recorded; run patchcore fingerprint {patch}"
            reason = "not recorded"
            if library.version == UNVERSIONED:
                why, reason = "no distribution provides it, so its version is unknown", _NO_LIBRARY
            return Comparison(target, UNKNOWN, library, None, why, reason=reason)
        version, target = nearest  # as it was spelt then
        before = recorded.entries(Library(library.name, version))[str(target)]
        if before == UNSEEN:
            why = f"its source does not show it, and {library.name} {version} was recorded without importing it"
            return Comparison(target, UNKNOWN, library, version, why, reason="recorded as unseen")
        reason = difference = ""
        only_annotations = False
        try:
            now = self._originals().fingerprint(change, target)
            status, detail = _compare(before, now)
            if status in (BODY_CHANGED, SIGNATURE_CHANGED):
                old, new = recorded.source(before.source), self._originals().source(now.source)
                difference = _difference(old, new, Library(library.name, version), library)
                only_annotations = status == BODY_CHANGED and _differ_in_annotations(old, new)
        except TargetNotFound as error:
            status, detail = GONE, str(error)
        except NotShown as error:
            if recorded.was_defined(before, target):  # the library took this name out
                status, detail = GONE, f"its source defines it no more ({error})"
            else:
                status, detail, reason = UNKNOWN, f"seen only once it is imported ({error})", "not in a source"
        except Unseen as error:
            status, detail, reason = UNKNOWN, f"seen only once it is imported ({error})", "not in a source"
        kind = "" if only_annotations else _KINDS.get(status, "")
        detail = "only annotations" if only_annotations else detail
        return Comparison(target, status, library, version, detail, difference, reason, kind)

    def _judge(self, recorded: Optional[Recorded]) -> Judge:
        from patchcore.builtin.drift.replacements.judging import Judge  # reads sources: for those who check

        return Judge(self._originals(), self._environment, recorded)

    def _originals(self) -> Originals:
        if self._known is None:
            from patchcore.builtin.drift.fingerprint import Originals  # reads sources: for those who compare

            self._known = Originals(self._original_of)
        return self._known


def _judged(change: Any, compared: Comparison, recorded: Recorded, entry: PlannedPatch, judge: Judge) -> Comparison:
    """Return a comparison with the notes on its replacement."""
    patch = entry.patch.name
    if compared.status == GONE:
        return compared
    changed = str(compared) if compared.status == SIGNATURE_CHANGED else ""
    kind, notes = compared.kind, list(judge.of_calls(change, compared.target, changed))
    if changed and judge.accepts_calls(change, compared.target):
        kind = KINDS[-1]
    if notes and kind == KINDS[1]:
        kind = ""
    before = recorded.entries(Library(compared.library.name, compared.recorded or ""))
    detail = compared.detail
    if compared.drifted and not judge.concerns(change, compared.target, before.get(str(compared.target))):
        kind = ""
    elif (
        kind == KINDS[-1]
        and (compared.status == BODY_CHANGED or isinstance(change, Wrap))
        and compared.difference
        and not judge.shares_names(change, compared.target, compared.difference)
    ):
        kind = ""
        detail = f"{detail}; " * bool(detail) + "the replacement has no name that the change is about"
    copied = list(judge.of_copy(change, compared.target, compared.library, patch, drifted=compared.drifted))
    if copied:
        notes += copied
        kind = "" if kind == KINDS[-1] else kind
    notes += judge.of_names(change, compared.target)
    since = before.get(str(compared.target))
    if since is not None and since.source == ABSENT_SOURCE and isinstance(change, SlotChange) and not change.adds:
        notes += judge.of_takeover(change, compared.target, f"{compared.library.name} {compared.recorded}", entry)
    return compared._replace(kind=kind, detail=detail, notes=tuple(notes))


def remarks_on(entry: PlannedPatch, environment: Environment, *, thorough: bool) -> list[Remark]:
    """Return the remarks on drift for a planned patch; see the hook ``remarks``.

    Args:
        entry: planned; its library is installed.
        environment: the installed libraries.
        thorough: compare every target. Otherwise a target whose installed version is recorded counts as unchanged.
    """
    drift = Drift(ENGINE.journal.original, environment)
    try:
        comparisons = drift.of(entry, skip_recorded=not thorough)
        notes = drift.notes_on(entry) if thorough else drift.notes_on_additions(entry)
    except PluginError as error:
        return [Remark(str(error), logging.WARNING, finding=True, topic="plugin")]
    return remarks_of(comparisons, notes, entry, thorough=thorough)


def remarks_of(
    comparisons: Sequence[Comparison], notes: Iterable[Note], entry: PlannedPatch, *, thorough: bool
) -> list[Remark]:
    """Return the remarks for comparisons of a patch; see :func:`remarks_on`.

    Args:
        comparisons: of its targets.
        notes: on what is compared with no fingerprint.
        entry: the patch.
        thorough: add the comparisons, for programs.
    """
    changed = [comparison for comparison in comparisons if comparison.drifted]
    level = logging.WARNING if any(comparison.kind for comparison in changed) else logging.INFO
    lines = remarks(comparisons)
    advice = f"Adapt the patch and run patchcore fingerprint {entry.provenance.plugin}"
    found = [
        Remark(line, level, finding=True, advice=advice, topic=comparison.kind)
        for line, comparison in zip(lines, changed)  # the lines about drift are the first
        if comparison.kind
    ]
    every = [*(note for comparison in comparisons for note in comparison.notes), *notes]
    noted = logging.INFO if thorough else logging.WARNING  # at apply: a name that the library has itself now
    found += (Remark(n.text, noted, finding=bool(n.kind), advice=n.advice, topic=n.kind or "drift") for n in every)
    found += (
        Remark(line, topic="drift")
        for line, comparison in zip(lines, changed)
        if not comparison.kind and not any(note.replaces_change for note in comparison.notes)
    )
    found += (Remark(line, level, topic="drift") for line in lines[len(changed) :])
    if thorough and comparisons:
        found.append(Remark("", topic="drift", data=tuple(comparison.to_dict() for comparison in comparisons)))
    return found


def fingerprinted(patch: Patch, targets: Sequence[Target]) -> Iterator[tuple[Any, Target]]:
    """Yield the changes of ``patch`` that change something that is there, each with its target."""
    return (
        (change, target)
        for change, target in zip(patch.changes, targets)
        if change.by_hand or (isinstance(change, SlotChange) and not change.adds)
    )


def remarks(comparisons: Iterable[Comparison]) -> tuple[str, ...]:
    """Return the remarks on the targets of a patch, one line each: drift, then versions that are not recorded."""
    listed = list(comparisons)
    lines = [str(comparison) for comparison in listed if comparison.drifted]
    for library in dict.fromkeys(comparison.library for comparison in listed):
        others = [c for c in listed if c.library == library and not c.drifted and c.recorded != library.version]
        versions = sorted({c.recorded for c in others if c.recorded is not None}, key=version_key)
        if versions:
            same = sum(c.status == UNCHANGED for c in others)
            unseen = f", {len(others) - same} not seen" if same != len(others) else ""
            lines.append(
                f"{library} is not recorded; compared with {', '.join(versions)}: {counted(same, 'target')} unchanged"
                f"{unseen}"
            )
        elif others:
            lines.append(f"{library}: {others[0].detail}")
    return tuple(lines)


def _compare(before: Fingerprint, now: Fingerprint) -> tuple[str, str]:
    """Return the status and a text for the change."""
    if before.source == ABSENT_SOURCE:  # some entries exist on some machines only: NCCL, an environment variable
        return UNCHANGED, ""
    if now.source == ABSENT_SOURCE:
        return GONE, "there is no such entry"
    if before.signature and now.signature and before.signature != now.signature:
        return SIGNATURE_CHANGED, f"{before.signature} -> {now.signature}"
    if before.source != now.source:
        return BODY_CHANGED, _members(before.members, now.members)
    return UNCHANGED, ""


def _difference(before: str, now: str, old: Library, new: Library) -> str:
    """Return a unified diff of normalised sources, ``""`` where one of them is missing."""
    if not before or not now:
        return ""
    from patchcore.builtin.drift.syntax import relaid  # for those whose targets have changed
    from patchcore.stdlib import difflib

    lines, new_lines = relaid(before).splitlines(), relaid(now).splitlines()
    return "\n".join(difflib.unified_diff(lines, new_lines, str(old), str(new), n=2, lineterm=""))


def _differ_in_annotations(before: str, now: str) -> bool:
    """Return whether two normalised sources of a function differ in annotations only; false where one is missing."""
    if not before or not now or before.count("\n") != now.count("\n"):  # annotations take no line
        return False
    from patchcore.builtin.drift.syntax import without_annotations

    return without_annotations(before) == without_annotations(now)


def _members(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    changed = [name for name in before if name in now and before[name] != now[name]]
    parts = (
        ("changed", changed),
        ("new", [name for name in now if name not in before]),
        ("gone", [name for name in before if name not in now]),
    )
    return "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names) if before or now else ""
