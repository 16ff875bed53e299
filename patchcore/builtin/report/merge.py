"""Merge the reports of a run's processes: which processes took part, and how they differ."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from patchcore.builtin.report.report_file import Malformed, read_report
from patchcore.builtin.run.process_report import FILES, OTHERS
from patchcore.builtin.run.roles import LAUNCHER, MAIN, RANK, WORKER
from patchcore.builtin.shared.finding import Finding
from patchcore.builtin.shared.manifest import compare_manifests
from patchcore.errors import SettingsError, describe_error
from patchcore.objects.printable import printable
from patchcore.report import FAILED, SKIPPED

__all__ = ["Process", "Reports", "findings", "read_reports", "some_of"]


#: The processes of a run are compared with the first of this order: rank 0 itself, not the launcher that started it.
_ROLES = (RANK, MAIN, LAUNCHER, WORKER)
#: More missing ranks in a row are one finding.
_MOST_NAMED = 16


@dataclass(frozen=True)
class Process:
    """One process of a run.

    Args:
        content: its report, as :func:`patchcore.builtin.report.report_file.read_report` returns it.
    """

    content: Mapping[str, Any]

    @property
    def run(self) -> str:
        """The run that it took part in."""
        return str(self.content["run"])

    @property
    def identity(self) -> tuple[str, str, int]:
        """The key of the process: run, host and process id. Two processes share it only if the system reused the id."""
        return self.run, self.content["environment"]["host"], int(self.content["environment"]["pid"])

    @property
    def rank(self) -> int:
        """Its rank, or that of the process that started it."""
        return int(self.content["environment"]["rank"])

    @property
    def leads(self) -> bool:
        """False for workers."""
        return bool(self.content["role"] != WORKER)

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts processes: by rank, and in each the one that has it first."""
        return self.rank, _ROLES.index(self.content["role"]), int(self.content["environment"]["pid"])

    def __str__(self) -> str:
        environment = self.content["environment"]
        return f"rank {self.rank}, {self.content['role']} {environment['pid']} on {environment['host']}"


class Reports(NamedTuple):
    """The content of a report directory.

    Args:
        processes: those whose reports can be read, in order; at least one.
        unreadable: a finding for each file that is no report, or has a field that cannot be.
    """

    processes: list[Process]
    unreadable: list[Finding]


def read_reports(directory: Path) -> Reports:
    """Return the processes that have written a report to ``directory``, and findings for files that cannot be read.

    A process that has become another program (``exec``) has written several; the last one counts.

    Raises:
        SettingsError: there is no such directory, there are no reports in it, or none can be read.
    """
    found: list[Process] = []
    unreadable: list[Finding] = []
    paths = _report_files(directory)
    for path in paths:
        try:
            found.append(Process(read_report(path)))
        except (OSError, Malformed) as error:
            fault = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)
            unreadable.append(Finding("unreadable", path.name, f"{fault}; the report is left out"))
    if not paths:
        raise SettingsError(f"no reports in {directory}: no process of the run had patches, or no program was run")
    if not found:
        faults = "".join(f"\n  {printable(finding.subject)}: {finding.message}" for finding in unreadable)
        raise SettingsError(f"none of the reports in {directory} can be read:{faults}")
    found.sort(key=lambda process: float(process.content["written"]))
    last = {process.identity: process for process in found}
    kept = [process for process in found if process.content["finished"] or last[process.identity] is process]
    return Reports(sorted(kept, key=lambda process: process.order), unreadable)


def _report_files(directory: Path) -> list[Path]:
    try:
        names = [name for name in os.listdir(directory) if fnmatch.fnmatchcase(name, FILES)]
    except (FileNotFoundError, NotADirectoryError):
        raise SettingsError(
            f"no directory {str(directory)!r}; patchcore run --report-dir {directory} ... makes one"
        ) from None
    except (OSError, ValueError) as error:  # not allowed, a name that is too long or that has a null character
        raise SettingsError(f"the directory {str(directory)!r} cannot be read: {describe_error(error)}") from error
    return [directory / name for name in sorted(names)]


def findings(processes: Sequence[Process], unreadable: Iterable[Finding] = ()) -> list[Finding]:
    """Return the faults of a run.

    Kinds: ``unreadable``, ``difference``, ``failed``, ``late``, ``plugin``, ``unfinished``, ``error``, ``missing``.

    Args:
        processes: that took part in it; the others are compared with the first.
        unreadable: files that may be reports of others, see :class:`Reports`.
    """
    found = (
        _differences(processes),
        _failures(processes),
        _unfinished(processes),
        _errors(processes),
        _missing(processes),
    )
    return [*unreadable, *(finding for each in found for finding in each)]


def _differences(processes: Sequence[Process]) -> list[Finding]:
    groups: dict[str, list[Process]] = {}
    for process in processes:
        groups.setdefault(process.content["digest"], []).append(process)
    reference, *others = groups.values()
    found: list[Finding] = []
    for group in others:
        one, other = group[0].content["manifest"], reference[0].content["manifest"]
        if not any(process.leads for process in group):
            one, other = _reduced(one, other), _reduced(other, one)
        differences = compare_manifests(one, other)
        found += (
            Finding("difference", d.subject, f"{d.one}; on {reference[0]}: {d.other}", _names(group))
            for d in differences
        )
    return found


def _reduced(manifest: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out entries that are skipped or missing in one of two processes: a worker need not see all libraries."""

    def is_skipped(name: str) -> bool:
        return any(SKIPPED in (m["patches"].get(name) or {}).values() for m in (manifest, other))

    def is_missing(table: str, name: str) -> bool:
        return any(m[table].get(name, "") is None for m in (manifest, other))

    reduced = dict(manifest)
    reduced["patches"] = {name: patch for name, patch in manifest["patches"].items() if not is_skipped(name)}
    for table in ("libraries", "files"):
        reduced[table] = {name: text for name, text in manifest[table].items() if not is_missing(table, name)}
    return reduced


def _failures(processes: Sequence[Process]) -> list[Finding]:
    groups: dict[tuple[str, str, str], list[Process]] = {}
    for process in processes:
        for patch in process.content["patches"]:
            if patch["status"] == FAILED:
                groups.setdefault(("failed", f"patch {patch['name']}", patch["reason"]), []).append(process)
            for text in dict.fromkeys(change["missed"] for change in patch["changes"] if change.get("missed")):
                groups.setdefault(("late", f"patch {patch['name']}", text), []).append(process)
        others = [section["data"] for section in process.content["sections"] if section["title"] == OTHERS]
        for patch in others[0] if others and isinstance(others[0], list) else ():
            if isinstance(patch, Mapping) and patch.get("status") == FAILED:
                message = f"{patch.get('reason')} (made at {patch.get('made')})"
                groups.setdefault(("failed", f"patch {patch.get('patch')}", message), []).append(process)
        for problem in process.content["problems"]:
            message = f"{problem['where']}: {problem['message']}"
            groups.setdefault(("plugin", f"plugin {problem['plugin']}", message), []).append(process)
    return [
        Finding(kind, subject, message, some_of(processes, group)) for (kind, subject, message), group in groups.items()
    ]


def _unfinished(processes: Sequence[Process]) -> list[Finding]:
    message = "did not finish: it was killed or is still running; its last report is of {}"
    return [
        Finding("unfinished", "", message.format(time.ctime(process.content["written"])), str(process))
        for process in processes
        if process.leads and not process.content["finished"]
    ]


def _errors(processes: Sequence[Process]) -> list[Finding]:
    groups: dict[str, list[Process]] = {}
    for process in processes:
        if process.content["error"]:
            groups.setdefault(process.content["error"], []).append(process)
    return [Finding("error", "", f"ended with {text}", some_of(processes, group)) for text, group in groups.items()]


def _missing(processes: Sequence[Process]) -> list[Finding]:
    ranks = {process.rank for process in processes if process.content["role"] == RANK}
    size = max(process.content["environment"]["ranks"] for process in processes)
    absent = _gaps(ranks, size) if ranks and size > 1 else []
    if not ranks and any(process.content["role"] == LAUNCHER for process in processes):
        absent = ["every rank"]
    message = "has left no report: it is not patched, could not write one, or wrote it elsewhere"
    return [Finding("missing", "", message, rank) for rank in absent]


def _gaps(ranks: Iterable[int], size: int) -> list[str]:
    """Name the ranks below ``size`` that are not among ``ranks``; many that follow each other are named together."""
    named: list[str] = []
    begin = 0
    for rank in (*sorted(rank for rank in ranks if rank < size), size):
        if rank - begin > _MOST_NAMED:
            named.append(f"each of ranks {begin} to {rank - 1}")
        else:
            named += (f"rank {absent}" for absent in range(begin, rank))
        begin = rank + 1
    return named


def some_of(processes: Sequence[Process], group: Sequence[Process]) -> str:
    """Return which of ``processes`` are in ``group``: the ranks, and one process of each."""
    return "all processes" if len(group) == len(processes) else _names(group)


def _names(processes: Iterable[Process]) -> str:
    """Name the ranks, and one process of each."""
    by_rank: dict[int, list[Process]] = {}
    for process in processes:
        by_rank.setdefault(process.rank, []).append(process)
    return "; ".join(f"{group[0]}{f' and {len(group) - 1} more' if group[1:] else ''}" for group in by_rank.values())
