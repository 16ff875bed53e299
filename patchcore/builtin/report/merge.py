"""Merge the reports of a run's processes: the faults of the run, and how its processes differ."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from patchcore.builtin.report.jobs import without_replaced
from patchcore.builtin.report.reading import Process
from patchcore.builtin.report.report_file import SHARED_PARTS
from patchcore.builtin.report.words import who
from patchcore.builtin.run.process_report import OTHERS
from patchcore.builtin.run.roles import LAUNCHER, RANK
from patchcore.builtin.shared.finding import Finding
from patchcore.builtin.shared.manifest import compare_manifests
from patchcore.objects.printable import counted
from patchcore.report import FAILED, SKIPPED

__all__ = ["findings", "groups_of", "some_of"]

#: More missing ranks in a row, and more processes that did not finish, are one finding; more ranks are counted.
_MOST_NAMED = 16


def findings(processes: Sequence[Process], unreadable: Iterable[Finding] = ()) -> list[Finding]:
    """Return the faults of a run.

    A process that a later generation of ranks has replaced has no faults: the launcher has dealt with it.

    Kinds: ``unreadable``, ``difference``, ``failed``, ``late``, ``plugin``, ``unfinished``, ``error``, ``missing``.

    Args:
        processes: that took part in it; the others are compared with the first.
        unreadable: files that may be reports of others, see :class:`patchcore.builtin.report.reading.Reports`.
    """
    processes = without_replaced(processes)
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
    faults: dict[tuple[int, ...], list[tuple[str, str, str]]] = {}  # of each content; most processes share it
    for process in processes:
        key = tuple(id(process.content[name]) for name in ("patches", "sections", "problems"))
        if key not in faults:
            faults[key] = list(_faults(process.content))
        for fault in faults[key]:
            groups.setdefault(fault, []).append(process)
    return [
        Finding(kind, subject, message, some_of(processes, group)) for (kind, subject, message), group in groups.items()
    ]


def _faults(content: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, subject and message of each fault in the patches and plugins of a process."""
    for patch in content["patches"]:
        if patch["status"] == FAILED:
            yield "failed", f"patch {patch['name']}", patch["reason"]
        for text in dict.fromkeys(change["missed"] for change in patch["changes"] if change.get("missed")):
            yield "late", f"patch {patch['name']}", text
    others = [section["data"] for section in content["sections"] if section["title"] == OTHERS]
    for patch in others[0] if others and isinstance(others[0], list) else ():
        if isinstance(patch, Mapping) and patch.get("status") == FAILED:
            yield "failed", f"patch {patch.get('patch')}", f"{patch.get('reason')} (made at {patch.get('made')})"
    for problem in content["problems"]:
        yield "plugin", f"plugin {problem['plugin']}", f"{problem['where']}: {problem['message']}"


def _unfinished(processes: Sequence[Process]) -> list[Finding]:
    left = [p for p in processes if p.leads and not p.content["finished"] and not p.content["job"]["engine"]]
    if len(left) > _MOST_NAMED:
        times = [time.ctime(pick(process.content["written"] for process in left)) for pick in (min, max)]
        message = (
            f"did not finish: they were killed or are still running; their last reports are of {' to '.join(times)}"
        )
        return [Finding("unfinished", "", message, _names(left))]
    message = "did not finish: it was killed or is still running; its last report is of {}"
    return [
        Finding("unfinished", "", message.format(time.ctime(process.content["written"])), str(process))
        for process in left
    ]


def _errors(processes: Sequence[Process]) -> list[Finding]:
    groups: dict[str, list[Process]] = {}
    for process in processes:
        if process.content["error"]:
            groups.setdefault(process.content["error"], []).append(process)
    return [Finding("error", "", f"ended with {text}", some_of(processes, group)) for text, group in groups.items()]


def _missing(processes: Sequence[Process]) -> list[Finding]:
    groups: dict[str, list[Process]] = {}
    for process in processes:
        if process.content["role"] == RANK:
            groups.setdefault(process.group, []).append(process)
    absent: list[str] = []
    for name, group in groups.items():
        size = max(process.content["environment"]["ranks"] for process in group)
        gaps = _gaps({process.rank for process in group}, size) if size > 1 else []
        absent += (f"{gap} of {name}" if name else gap for gap in gaps)
    if not groups and all(process.content["role"] == LAUNCHER for process in processes):
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


def groups_of(processes: Iterable[Process]) -> list[list[Process]]:
    """Return the processes in groups whose reports are equal in :data:`SHARED_PARTS`."""
    found: dict[str, list[Process]] = {}
    keys: dict[tuple[int, ...], str] = {}  # by the ids of the parts, which most processes share
    for process in processes:
        ids = tuple(id(process.content[name]) for name in SHARED_PARTS)
        if ids not in keys:
            keys[ids] = json.dumps([process.content[name] for name in SHARED_PARTS], sort_keys=True)
        found.setdefault(keys[ids], []).append(process)
    return list(found.values())


def some_of(processes: Sequence[Process], group: Sequence[Process]) -> str:
    """Return which of ``processes`` are in ``group``: the ranks, and one process of each."""
    return "all processes" if len(group) == len(processes) else _names(group)


def _names(processes: Iterable[Process]) -> str:
    """Name the ranks, and one process of each."""
    processes = list(processes)
    by_rank: dict[tuple[str, int], list[Process]] = {}
    for process in processes:
        by_rank.setdefault((process.group, process.rank), []).append(process)
    if len(by_rank) > _MOST_NAMED:
        hosts = {process.content["environment"]["host"] for process in processes}
        return f"{who(processes, ())} on {counted(len(hosts), 'host')}"
    return "; ".join(f"{group[0]}{f' and {len(group) - 1} more' if group[1:] else ''}" for group in by_rank.values())
