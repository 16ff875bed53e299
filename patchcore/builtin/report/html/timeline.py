"""The timeline: a lane for each main process, with imports as bars and the outcomes of patches as marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from patchcore.builtin.report.html.timescale import TimeScale
from patchcore.builtin.report.model import Run
from patchcore.builtin.report.reading import Process
from patchcore.builtin.report.words import duration
from patchcore.builtin.run.timeline import AWAKE, COMPARED, IMPORTED
from patchcore.report import APPLIED, FAILED, REVERTED

__all__ = ["Lane", "Timeline", "timeline_of"]

_MOST_LANES = 200  # a browser needs seconds for the lines of thousands of processes, and nobody compares them by eye
_MOST_WORKERS = 12  # lanes, where no process leads
_DEEPEST = 4  # imports inside imports
_MARKS = (FAILED, REVERTED, APPLIED, COMPARED)  # the worst first
_MOST_NAMED = 8  # of a mark
_STEP = 0.4  # marks nearer to each other are one, percent


class _Bar(NamedTuple):
    kind: str  # import or awake
    begin: float  # seconds since the first process started
    end: float
    name: str
    detail: str
    row: int  # 0, or more for an import inside another one


class _Mark(NamedTuple):
    kind: str  # the worst of its events
    at: float  # seconds since the first process started
    names: list[str]


class Lane:
    """One process on the axis of all.

    Args:
        process: with a timeline.
        origin: when the axis begins, in seconds since the epoch.
    """

    def __init__(self, process: Process, origin: float) -> None:
        timeline = process.content["timeline"]
        self.process = process
        self.begin: float = timeline["started"] - origin
        self.end = max(process.content["written"] - origin, self.begin)
        self.left_out: int = timeline["left_out"]
        self.events: Sequence[Mapping[str, Any]] = sorted(timeline["events"], key=lambda event: float(event["at"]))
        self.workers: list[Lane] = []

    @property
    def identity(self) -> tuple[str, Any]:
        """Machine and process id: process ids are those of a machine or container."""
        return self.process.machine, self.process.content["environment"]["pid"]

    @property
    def length(self) -> str:
        """How long the process ran, in words."""
        state = "" if self.process.content["finished"] else ", unfinished"
        return f"{duration(self.end - self.begin)}{state}"

    @property
    def bars(self) -> list[_Bar]:
        """The events that lasted; an import inside another one is on the row below."""
        lasting = (e for e in self.events if e["kind"] in (IMPORTED, AWAKE) and e["took"] is not None)
        bars: list[_Bar] = []
        around: list[float] = []
        for event in sorted(lasting, key=lambda event: (event["at"], -event["took"])):
            begin = self.begin + event["at"]
            end = begin + event["took"]
            while around and around[-1] <= begin:
                around.pop()
            kind, name = ("awake", "patchcore starts") if event["kind"] == AWAKE else ("import", event["subject"])
            bars.append(_Bar(kind, begin, end, name, event["detail"], min(len(around), _DEEPEST - 1)))
            around.append(end)
        return bars

    def marks(self, scale: TimeScale) -> list[_Mark]:
        """Return the events without duration, those near each other as one mark."""
        near: dict[int, list[Mapping[str, Any]]] = {}
        for event in self.events:
            if event["kind"] in _MARKS:
                near.setdefault(int(scale(self.begin + event["at"]) / _STEP), []).append(event)
        return [self._mark(events) for _, events in sorted(near.items())]

    def _mark(self, events: Sequence[Mapping[str, Any]]) -> _Mark:
        names = [f"{event['kind']} {event['subject'] or event['detail']}" for event in events[:_MOST_NAMED]]
        if events[_MOST_NAMED:]:
            names.append(f"and {len(events) - _MOST_NAMED} more")
        worst = min((event["kind"] for event in events), key=_MARKS.index)
        return _Mark(worst, self.begin + events[0]["at"], names)

    def count(self, kind: str) -> int:
        """Return the number of events of a kind."""
        return sum(event["kind"] == kind for event in self.events)

    def spells(self) -> Iterator[tuple[float, float]]:
        """Yield when something happened."""
        yield self.begin, self.begin
        for event in self.events:
            yield self.begin + event["at"], self.begin + event["at"] + (event["took"] or 0)
        yield self.end, self.end


class _Import(NamedTuple):
    module: str
    patches: list[str]  # that wait for it
    processes: list[Process]
    at: list[float]  # seconds since the start of each process
    took: list[float]


class Timeline(NamedTuple):
    """The content of the section.

    Args:
        origin: when the axis begins, in seconds since the epoch.
        scale: of the axis.
        lanes: the main processes, each with its workers; of thousands the first.
        left_out: how many main processes have no lane.
        imports: the earliest first.
    """

    origin: float
    scale: TimeScale
    lanes: list[Lane]
    left_out: int
    imports: list[_Import]

    @property
    def grid(self) -> list[float]:
        """Where the axis has ticks, in percent."""
        return [self.scale(seconds) for seconds in self.scale.ticks()]

    @property
    def ticks(self) -> Iterator[tuple[float, float]]:
        """The seconds that have a number on the axis, each with its place in percent: no two overlap."""
        last = -100.0
        for seconds in self.scale.ticks():
            place = self.scale(seconds)
            if place - last >= 6 and place <= 96:
                yield seconds, place
                last = place


def timeline_of(run: Run) -> Optional[Timeline]:
    """Return the timeline of a run, ``None`` if no report has one."""
    timed = [process for process in run.processes if process.content.get("timeline")]
    if not timed:
        return None
    origin = min(float(process.content["timeline"]["started"]) for process in timed)
    leading = [Lane(process, origin) for process in timed if process.leads]
    workers = [Lane(process, origin) for process in timed if not process.leads]
    # A worker is shown with the process that started it, else with the first of its rank.
    parents = {lane.identity: lane for lane in reversed(leading)}
    of_rank = {lane.process.rank: lane for lane in reversed(leading)}
    for worker in workers if leading else ():
        parent = worker.identity[0], worker.process.content["environment"].get("parent")
        parents.get(parent, of_rank.get(worker.process.rank, leading[0])).workers.append(worker)
    lanes = leading[:_MOST_LANES] if leading else workers[:_MOST_WORKERS]
    scale = TimeScale(spell for lane in lanes for each in (lane, *lane.workers) for spell in each.spells())
    return Timeline(origin, scale, lanes, len(leading[_MOST_LANES:]), _imports(run, timed))


def _imports(run: Run, timed: Sequence[Process]) -> list[_Import]:
    waiting: dict[str, dict[str, None]] = {}
    for patch in run.patches:
        for change in patch.changes:
            waiting.setdefault(change.target.partition(":")[0], {})[patch.name] = None
    found: dict[str, _Import] = {}
    for process in timed:
        for event in process.content["timeline"]["events"]:
            if event["kind"] == IMPORTED:
                module = event["subject"]
                row = found.setdefault(module, _Import(module, list(waiting.get(module, ())), [], [], []))
                if not row.processes or row.processes[-1] is not process:
                    row.processes.append(process)
                row.at.append(event["at"])
                row.took.extend([] if event["took"] is None else [event["took"]])
    return sorted(found.values(), key=lambda row: min(row.at))
