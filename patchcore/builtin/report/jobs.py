"""The jobs of a run: which ranks belong together, which processes a restart has replaced, whose clock is wrong.

Processes of several hosts share no clock and no process ids. What is used here: the generation on which the ranks have
agreed, the address at which they meet, the machine, and the time at which the file system wrote a file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from patchcore.builtin.report.reading import Process
from patchcore.builtin.run.roles import RANK

__all__ = ["correct_clocks", "linked_runs", "with_groups", "without_replaced"]

#: Seconds by which a file may be written before the time that is in it: clocks of file systems are coarse.
_TOLERANCE = 2.0

_LOOPBACK = ("localhost", "127.", "::1", "[::1]")


def correct_clocks(processes: Iterable[Process]) -> None:
    """Subtract from the times of each process the seconds by which the clock of its machine is ahead.

    The ranks of a job have compared their clocks. Otherwise a clock is ahead if a report claims to be written later
    than its file was. A clock that is behind cannot be told from a file that was copied, and is left alone.
    """
    machines: dict[str, list[Process]] = {}
    for process in processes:
        machines.setdefault(process.machine, []).append(process)
    for members in machines.values():
        compared = [p.content["job"]["clock"] for p in members if p.content["job"]["generation"]]
        if compared:
            ahead = float(median(compared))
        else:
            ahead = max((p.content["written"] - p.modified for p in members if p.modified is not None), default=0.0)
            ahead = ahead if ahead > _TOLERANCE else 0.0
        for process in members if abs(ahead) > _TOLERANCE else ():
            process.content["written"] -= ahead
            process.content["timeline"]["started"] -= ahead


def linked_runs(processes: Iterable[Process]) -> dict[str, frozenset[str]]:
    """Return, by the id of a run, the ids of the runs that are one with it: their ranks have formed a group."""
    runs = _Sets()
    for process in processes:
        runs.join(("run", process.run), ("run", process.run))
        if process.content["job"]["group"]:
            runs.join(("run", process.run), ("group", process.content["job"]["group"]))
    return {
        name: frozenset(other for kind, other in members if kind == "run")
        for members in runs.all()
        for kind, name in members
        if kind == "run"
    }


def without_replaced(processes: Sequence[Process]) -> list[Process]:
    """Return the processes that no later generation of ranks has replaced.

    A launcher starts a rank again in the same place: the same parent on the same machine, and the same local rank. A
    node that has left is replaced by ranks of the same group with a higher generation. Workers go with their parents.
    """
    newest: dict[Hashable, Process] = {}
    generations: dict[str, int] = {}
    ranks = [process for process in processes if process.content["role"] == RANK]
    for process in ranks:
        job = process.content["job"]
        generations[job["group"]] = max(generations.get(job["group"], 0), job["generation"])
        known = newest.get(_place(process))
        if known is None or known.content["timeline"]["started"] < process.content["timeline"]["started"]:
            newest[_place(process)] = process
    gone = {
        id(process): process
        for process in ranks
        if newest[_place(process)] is not process
        or (
            process.content["job"]["group"]
            and process.content["job"]["generation"] < generations[process.content["job"]["group"]]
        )
    }
    while True:
        parents = {(p.machine, p.content["environment"]["pid"]) for p in gone.values()}
        more = [
            process
            for process in processes
            if id(process) not in gone
            and not process.leads
            and (process.machine, process.content["environment"]["parent"]) in parents
        ]
        if not more:
            return [process for process in processes if id(process) not in gone]
        gone.update((id(process), process) for process in more)


def _place(process: Process) -> Hashable:
    """Return the place in which a launcher has started a rank; a rank that says nothing of it has one of its own."""
    local_rank = process.content["job"]["local_rank"]
    if local_rank is None:
        return id(process)
    return process.run, process.machine, process.content["environment"]["parent"], local_rank


def with_groups(processes: Sequence[Process]) -> list[Process]:
    """Return the processes, each with the name of its group of ranks, if there are several groups.

    Groups of workers that each count their ranks from 0 are several jobs in one run.
    """
    sets = _Sets()
    ranks = [process for process in processes if process.content["role"] == RANK]
    for process in ranks:
        own = ("process", id(process))
        sets.join(own, own)
        for key in _keys(process):
            sets.join(own, key)
    groups: dict[Hashable, list[Process]] = {}
    for process in ranks:
        groups.setdefault(sets.root(("process", id(process))), []).append(process)
    merged = _with_loopback(list(groups.values()))
    if len(merged) < 2:
        return list(processes)
    names: dict[str, str] = {}
    by_id: dict[int, str] = {}
    for number, group in enumerate(merged, 1):
        own_names = [p.content["job"]["name"] for p in group if p.content["job"]["name"]]
        name = own_names[0] if own_names else group[0].content["job"]["meeting"] or f"group {number}"
        name = f"{name} ({number})" if name in names else name
        names[name] = name
        for process in group:
            by_id[id(process)] = name
            for key in _keys(process):
                names.setdefault(repr(key), name)
    found = []
    for process in processes:
        keys = (names.get(repr(key), "") for key in _keys(process))
        found.append(replace(process, group=by_id.get(id(process)) or next(filter(None, keys), "")))
    return found


def _keys(process: Process) -> Iterable[Hashable]:
    """Yield the facts that two ranks of one group share."""
    job = process.content["job"]
    if job["group"]:
        yield "group", job["group"]
    if job["meeting"]:
        yield "meeting", job["meeting"], process.machine if job["meeting"].startswith(_LOOPBACK) else ""
    if not job["group"] and not job["meeting"]:
        yield "run", process.run


def _with_loopback(groups: list[list[Process]]) -> list[list[Process]]:
    """Join the group whose master calls itself localhost with the group of the other ranks, as in a PyTorchJob."""
    merged: list[list[Process]] = []
    for group in groups:
        meeting = group[0].content["job"]["meeting"]
        other = next((each for each in merged if _is_the_rest(each, group)), None) if meeting else None
        if other is None:
            merged.append(group)
        else:
            other += group
    return merged


def _is_the_rest(one: Sequence[Process], other: Sequence[Process]) -> bool:
    meetings = [group[0].content["job"]["meeting"] for group in (one, other)]
    sizes = [group[0].content["environment"]["ranks"] for group in (one, other)]
    return (
        any(meeting.startswith(_LOOPBACK) for meeting in meetings)
        and len({meeting.rpartition(":")[2] for meeting in meetings}) == len(set(sizes)) == 1
        and {p.rank for p in one}.isdisjoint(p.rank for p in other)
    )


class _Sets:
    """Sets of keys that are joined step by step (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def root(self, key: Hashable) -> Hashable:
        """Return the key that stands for the set of ``key``."""
        self._parents.setdefault(key, key)
        while self._parents[key] != key:
            self._parents[key] = self._parents[self._parents[key]]
            key = self._parents[key]
        return key

    def join(self, one: Hashable, other: Hashable) -> None:
        """Make one set of the sets of two keys."""
        self._parents[self.root(other)] = self.root(one)

    def all(self) -> list[list[tuple[str, str]]]:
        """Return the keys of each set."""
        found: dict[Hashable, list[tuple[str, str]]] = {}
        for key in list(self._parents):
            found.setdefault(self.root(key), []).append(key)  # type: ignore[arg-type]
        return list(found.values())
