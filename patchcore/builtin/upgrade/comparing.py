"""Compares the targets of patches in the sources of two releases of a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from patchcore.builtin.check.command import Findings, by_gravity
from patchcore.builtin.check.coverage import Coverage, is_disabled
from patchcore.builtin.drift.definitions import Sources, reading_once
from patchcore.builtin.drift.drift import UNCHANGED, UNKNOWN, Comparison, Drift, remarks_of
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.drift.recorded import Recorded, file_of, version_key
from patchcore.builtin.drift.recording import Recording
from patchcore.builtin.shared.finding import Finding
from patchcore.builtin.upgrade.releases import Release
from patchcore.errors import DeclarationError, SettingsError
from patchcore.objects.extensions import using
from patchcore.patcher import Patcher
from patchcore.planning.candidates import Candidate
from patchcore.planning.conditions import APPLY, Environment
from patchcore.planning.distributions import parse_requirement
from patchcore.planning.plan import PlannedPatch
from patchcore.report import Remark

__all__ = ["Upgrade", "compare_releases"]


class Upgrade(NamedTuple):
    """What an upgrade of a library does to patches.

    Args:
        old: the release before, as text.
        new: the release after it.
        patches: the number of patches that change the library in one of them.
        starting: names of the patches that are for the new release and not for the old one.
        findings: as those of ``check``.
        standing: findings that the old release has too: they are no news to those who upgrade.
    """

    old: str
    new: str
    patches: int
    starting: list[str]
    findings: Findings
    standing: list[Finding]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view."""
        return {
            "old": self.old,
            "new": self.new,
            "patches": self.patches,
            "starting": self.starting,
            "standing": [dict(zip(Finding._fields[:3], finding)) for finding in self.standing],
            **self.findings.to_dict(),
        }


class _Environment(Environment):
    """What is installed, but for one library, of which there is another release.

    Args:
        release: its sources.
        versions: see :class:`Environment`.
    """

    def __init__(self, release: Release, versions: Mapping[str, str]) -> None:
        super().__init__({**versions, **dict.fromkeys(release.trees, release.version)})
        self._release = release
        self._sources = Sources(release.trees)

    def is_module(self, name: str) -> bool:
        is_of_release = name.partition(".")[0] in self._release.trees
        return self._sources.is_module(name) if is_of_release else super().is_module(name)

    def unmet_by_release(self, entry: PlannedPatch) -> Optional[str]:
        """Return which requirement on the library is not met by the release; other libraries do not count."""
        for text in entry.patch.requires:
            try:
                if parse_requirement(text)[0].replace("-", "_") in self._release.trees:
                    reason = self.unmet(text)
                    if reason is not None:
                        return reason
            except (ValueError, DeclarationError):  # the plan has it
                continue
        return None


def compare_releases(patcher: Patcher, old: Release, new: Release, *, whole: bool = False) -> Upgrade:
    """Return what an upgrade would do to the patches of a Patcher that no setting disables.

    Args:
        patcher: not applied; the library need not be installed.
        old: the release that the patches are for.
        new: the release to compare with.
        whole: count the findings that the old release has too among the findings.

    Raises:
        SettingsError: the two are not of one library.
    """
    if not set(old.trees) & set(new.trees):
        raise SettingsError(f"{old} has the packages {', '.join(old.trees)}, {new} has {', '.join(new.trees)}")
    with reading_once(), using(patcher.plugins.extensions):
        return _Comparing(patcher, old, new, whole=whole).compared()


class _Comparing:
    def __init__(self, patcher: Patcher, old: Release, new: Release, *, whole: bool) -> None:
        self._whole = whole
        self._standing: list[Finding] = []
        versions = patcher.settings.library_versions
        self._old, self._new = old, new
        self._before, self._after = _Environment(old, versions), _Environment(new, versions)
        self._entries = [each for each in patcher.plan() if not is_disabled(each) and self._concerns(each)]
        self._old_originals, self._new_originals = Originals(trees=old.trees), Originals(trees=new.trees)
        self._recordings: dict[Optional[Path], Recording] = {}

    def compared(self) -> Upgrade:
        both, starting, neither = [], [], Counter[str]()
        findings: list[Finding] = []
        for entry in self._entries:
            before, after = self._before.unmet_by_release(entry), self._after.unmet_by_release(entry)
            if before is None and after is None:
                both.append(entry)
            elif before is None:
                findings.append(Finding("requires", entry.patch.name, f"not for {self._new}: {after}"))
            elif after is None:
                starting.append(entry.patch.name)
            else:
                neither[before] += 1
        missing = {entry.patch.name: self._record(entry) for entry in both}
        for recording in self._recordings.values():
            recording.update()
        judged = [(entry, *self._judged(entry, missing[entry.patch.name])) for entry in both]
        result = self._findings(findings, judged, sum(map(len, missing.values())), neither)
        patches = len(self._entries) - sum(neither.values())
        return Upgrade(str(self._old), str(self._new), patches, starting, result, self._standing)

    def _judged(self, entry: PlannedPatch, missing: Iterable[str]) -> tuple[list[Comparison], list[Remark]]:
        """Return the comparisons of a patch with the old release, and the findings."""
        recorded = self._recordings[file_of(entry.provenance)].recorded
        planned = self._entry(entry, self._after, without=missing)
        drift = Drift(environment=self._after, originals=self._new_originals, recorded=recorded)
        found = drift.of(planned)
        if not self._whole:
            found = self._news(found, entry, recorded, missing)
        remarks = remarks_of(found, drift.notes_on(planned), planned, thorough=False)
        return found, [remark for remark in remarks if remark.finding]

    def _news(
        self, found: list[Comparison], entry: PlannedPatch, recorded: Recorded, missing: Iterable[str]
    ) -> list[Comparison]:
        """Return comparisons without the notes that the old release has too, on targets that are the same in both.

        A replacement that does not accept the calls of its target, or a stale copy, does so with both releases then.
        """
        if not any(note.kind for each in found if each.status == UNCHANGED for note in each.notes):
            return found
        planned = self._entry(entry, self._before, without=missing)
        drift = Drift(environment=self._before, originals=self._old_originals, recorded=recorded)
        before = {str(each.target): {note.kind for note in each.notes} for each in drift.of(planned)}
        news = []
        for each in found:
            kinds = before.get(str(each.target), set()) - {""} if each.status == UNCHANGED else set()
            old = [note for note in each.notes if note.kind in kinds]
            self._standing += (Finding(note.kind, entry.patch.name, note.text) for note in old)
            news.append(each._replace(notes=tuple(note for note in each.notes if note not in old)))
        return news

    def _findings(
        self,
        findings: list[Finding],
        judged: list[tuple[PlannedPatch, list[Comparison], list[Remark]]],
        absent: int,
        skipped: Counter[str],
    ) -> Findings:
        """Return the findings as those of ``check``.

        Args:
            findings: on requirements.
            judged: the patches that are for both releases.
            absent: the number of targets that the old release does not have.
            skipped: patches that are for neither release, by reason.
        """
        found = dict.fromkeys(findings)
        differences, copies = [], []
        unknown = Counter[str]({f"not in {self._old}": absent} if absent else {})
        compared = 0
        for entry, comparisons, remarks in judged:
            name = entry.patch.name
            found.update(dict.fromkeys(Finding(remark.topic, name, remark.text) for remark in remarks))
            for each in comparisons:
                target = str(each.target)
                differences += [(name, target, each.difference)] if each.difference else []
                copies += [(name, target, note.difference) for note in each.notes if note.difference]
                compared += each.status != UNKNOWN
                unknown.update([each.reason] if each.status == UNKNOWN else [])
        steps = dict.fromkeys(remark.advice for _, _, remarks in judged for remark in remarks if remark.advice)
        coverage = Coverage(compared, dict(unknown.most_common()), dict(skipped.most_common()))
        return Findings(by_gravity(found), differences, copies, list(steps), coverage)

    def _record(self, entry: PlannedPatch) -> set[str]:
        """Take the fingerprints of a patch in the old release; return the targets that it does not have."""
        path = file_of(entry.provenance)
        if path not in self._recordings:
            recording = Recording(Recorded(Path(), {}) if path is None else Recorded.read(path), whole=False)
            for root in self._old.trees:
                _forget_newer(recording.recorded, root, self._old.version, is_upgrade=self._is_upgrade())
            self._recordings[path] = recording
        recording = self._recordings[path]
        before = len(recording.failures)
        planned = self._entry(entry, self._before)
        recording.take(Candidate(planned.patch, entry.provenance), self._old_originals, self._before)
        return {row.target for row in recording.failures[before:]}

    def _is_upgrade(self) -> bool:
        return bool(version_key(self._new.version) >= version_key(self._old.version))

    def _concerns(self, entry: PlannedPatch) -> bool:
        return any(change.target.pin(self._before.is_module).root in self._old.trees for change in entry.patch.changes)

    def _entry(self, entry: PlannedPatch, environment: Environment, without: Iterable[str] = ()) -> PlannedPatch:
        """Return a patch with its changes of the library only, and their targets in one release."""
        pairs = []
        for change in entry.patch.changes:
            first = change.target.pin(self._before.is_module)
            if first.root in self._old.trees and str(first) not in without:
                pairs.append((change, change.target.pin(environment.is_module)))
        patch = entry.patch.evolve(changes=tuple(change for change, _ in pairs))
        return entry._replace(patch=patch, targets=tuple(target for _, target in pairs), verdict=APPLY)


def _forget_newer(recorded: Recorded, library: str, version: str, *, is_upgrade: bool) -> None:
    """Leave out the releases after ``version``; for a downgrade, all: the new release is compared with the old one."""
    for table in (recorded.libraries, recorded.names):
        for known in list(table.get(library, {})):
            if not is_upgrade or version_key(known) > version_key(version):
                del table[library][known]
