"""Merge the reports of a run's processes: who took part, and what they do not have in common."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from patchcore.errors import SettingsError
from patchcore.launch.process_report import FILES
from patchcore.launch.roles import LAUNCHER, MAIN, RANK, WORKER
from patchcore.manifest import compare
from patchcore.report import FAILED, SCHEMA_VERSION, SKIPPED

__all__ = ["Finding", "Process", "Remark", "findings", "read_reports", "remarks"]


#: What the processes of a run are held to is the first of them: rank 0 itself, not who started it, perhaps elsewhere.
_ROLES = (RANK, MAIN, LAUNCHER, WORKER)
_KEYS = ("digest", "manifest", "finished", "patches", "problems", "sections", "summary", "written")


class Finding(NamedTuple):
    """What is wrong with a run.

    Args:
        kind: ``difference``, ``failed``, ``late``, ``plugin``, ``unfinished`` or ``missing``.
        processes: whose it is.
        subject: a patch, library, plugin or file.
        message: what is the matter.
    """

    kind: str
    processes: str
    subject: str
    message: str


class Remark(NamedTuple):
    """What plugins tell of processes besides patches.

    Args:
        title: of the section.
        processes: whose it is.
        line: one of the section.
    """

    title: str
    processes: str
    line: str


@dataclass(frozen=True)
class Process:
    """One process of a run.

    Args:
        content: its report.
    """

    content: Mapping[str, Any]

    @property
    def run(self) -> str:
        """The run that it took part in."""
        return str(self.content["run"])

    @property
    def identity(self) -> tuple[str, str, int]:
        """What tells it from others, unless process ids have come round."""
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


def read_reports(directory: Path) -> list[Process]:
    """Return the processes that have written a report to ``directory``, in order.

    A process that has become another program (``exec``) has written several; the last one counts.

    Raises:
        SettingsError: there is no such directory, there are no reports in it, or one cannot be read.
    """
    if not directory.is_dir():
        raise SettingsError(f"no directory {str(directory)!r}; patchcore run --report-dir {directory} ... makes one")
    found = []
    for path in sorted(directory.glob(FILES)):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content["schema_version"]
            process = Process(content)
            if version == SCHEMA_VERSION:
                _ = process.identity, process.order, [content[key] for key in _KEYS]
                _ = [content["environment"][key] for key in ("name", "program", "ranks")]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path} is no report of a process ({type(error).__name__}: {error})") from error
        if version != SCHEMA_VERSION:
            raise SettingsError(f"{path} has schema_version {version}, this patchcore reads {SCHEMA_VERSION}")
        found.append(process)
    if not found:
        raise SettingsError(f"no reports in {directory}: no process of the run had anything to patch, or none was run")
    found.sort(key=lambda process: float(process.content["written"]))
    last = {process.identity: process for process in found}
    kept = [process for process in found if process.content["finished"] or last[process.identity] is process]
    return sorted(kept, key=lambda process: process.order)


def findings(processes: Sequence[Process]) -> list[Finding]:
    """Return what is wrong with the run that these processes took part in; the first is what the others are held to."""
    return [*_differences(processes), *_failures(processes), *_unfinished(processes), *_missing(processes)]


def remarks(processes: Sequence[Process]) -> list[Remark]:
    """Return the lines of the sections of all processes, each once, section by section."""
    groups: dict[tuple[str, str], list[Process]] = {}
    for process in processes:
        for section in process.content["sections"]:
            for line in section["lines"]:
                groups.setdefault((section["title"], line), []).append(process)
    titles = list(dict.fromkeys(title for title, _ in groups))
    return sorted(
        (Remark(title, _some_of(processes, group), line) for (title, line), group in groups.items()),
        key=lambda remark: titles.index(remark.title),
    )


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
        differences = compare(one, other)
        found += (
            Finding("difference", _names(group), d.subject, f"{d.one}; on {reference[0]}: {d.other}")
            for d in differences
        )
    return found


def _reduced(manifest: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is skipped or cannot be found in one of two processes: a worker need not see all libraries."""

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
        for problem in process.content["problems"]:
            message = f"{problem['where']}: {problem['message']}"
            groups.setdefault(("plugin", f"plugin {problem['plugin']}", message), []).append(process)
    return [
        Finding(kind, _some_of(processes, group), subject, message)
        for (kind, subject, message), group in groups.items()
    ]


def _unfinished(processes: Sequence[Process]) -> list[Finding]:
    message = "has not come to its end: it was killed or is still running; it was last heard of at {}"
    return [
        Finding("unfinished", str(process), "", message.format(time.ctime(process.content["written"])))
        for process in processes
        if process.leads and not process.content["finished"]
    ]


def _missing(processes: Sequence[Process]) -> list[Finding]:
    ranks = {process.rank for process in processes if process.content["role"] == RANK}
    size = max(process.content["environment"]["ranks"] for process in processes)
    absent = [f"rank {rank}" for rank in range(size) if rank not in ranks] if ranks and size > 1 else []
    if not ranks and any(process.content["role"] == LAUNCHER for process in processes):
        absent = ["every rank"]
    message = "has left no report: it is not patched, could not write one, or wrote it elsewhere"
    return [Finding("missing", rank, "", message) for rank in absent]


def _some_of(processes: Sequence[Process], group: Sequence[Process]) -> str:
    return "all processes" if len(group) == len(processes) else _names(group)


def _names(processes: Iterable[Process]) -> str:
    """Name the ranks, and one process of each."""
    by_rank: dict[int, list[Process]] = {}
    for process in processes:
        by_rank.setdefault(process.rank, []).append(process)
    return "; ".join(f"{group[0]}{f' and {len(group) - 1} more' if group[1:] else ''}" for group in by_rank.values())
