"""Patches without effect in the runs that reports record: nobody called what they change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from patchcore.builtin.drift.replacements.lines import place_of
from patchcore.builtin.report.hits import Hits, count_hits
from patchcore.builtin.report.reading import read_reports
from patchcore.builtin.shared.finding import Finding
from patchcore.errors import SettingsError
from patchcore.objects.printable import counted
from patchcore.planning.plan import PlannedPatch

__all__ = ["Uncalled", "find_uncalled"]


class Uncalled(NamedTuple):
    """What recorded runs show about patches.

    Args:
        findings: patches none of whose targets was called.
        steps: the next steps, with the lines to delete.
        summary: a line: the numbers of runs, processes and patches.
    """

    findings: list[Finding]
    steps: list[str]
    summary: str


def find_uncalled(entries: Iterable[PlannedPatch], directories: Sequence[Path]) -> Uncalled:
    """Return the patches that the processes of all runs have applied and counted, and that had no effect in any.

    Args:
        entries: of the plan.
        directories: with reports of runs with ``--count``; of several, subfolders are read, too.

    Raises:
        SettingsError: there are no reports, a report cannot be read, or no process has counted calls.
    """
    processes, unreadable = read_reports(*directories, events=False)
    where = ", ".join(map(str, directories))
    if unreadable:  # the calls of that process are not known
        first = unreadable[0]
        raise SettingsError(f"a report in {where} is not complete: {first.subject}: {first.message}")
    by_patch: dict[str, list[Hits]] = {}
    for hit in count_hits(processes):
        by_patch.setdefault(hit.patch, []).append(hit)
    if not by_patch:
        raise SettingsError(f"no calls were counted in {where}; run the program with patchcore run --count")
    runs = counted(len({process.run for process in processes}), "run")
    findings, steps, known = [], [], 0
    for entry in entries:
        hits = by_patch.get(entry.patch.name, [])
        known += bool(hits)
        if not hits or any(hit.calls if hit.replaced is None else hit.replaced for hit in hits):
            continue
        findings.append(Finding("uncalled", entry.patch.name, f"no effect in {runs}: {_reason(hits)}"))
        places = [place_of(target, entry.provenance.file) for target in entry.targets]
        lines = ", ".join(dict.fromkeys(filter(None, places)))
        where = f" ({lines})" if lines else ""
        steps.append(f"Delete the patch {entry.patch.name}{where}, if these runs show all uses of it")
    others = counted(len(processes), "process")
    return Uncalled(findings, steps, f"calls in {runs}, {others}: counted for {counted(known, 'patch')}")


def _reason(hits: Sequence[Hits]) -> str:
    """Return why a patch had no effect."""
    never = [hit.target for hit in hits if not hit.calls]
    parts = [f"nobody called {', '.join(never)}"] if never else []
    for hit in hits:
        if hit.calls:
            calls = "the only call" if hit.calls == 1 else f"all {hit.calls} calls"
            parts.append(f"when_call left {calls} of {hit.target} to the original")
    return "; ".join(parts)
