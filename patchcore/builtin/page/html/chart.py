"""The timeline: a lane for each process that leads, with imports as bars and what became of patches as marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from patchcore.builtin.html import Content, Element, badge, code, fold, folded, h, section, table
from patchcore.builtin.page.html.parts import Links
from patchcore.builtin.page.html.timescale import TimeScale
from patchcore.builtin.page.merge import Process
from patchcore.builtin.page.model import Run
from patchcore.builtin.page.words import clock, duration, span
from patchcore.builtin.run.timeline import AWAKE, COMPARED, FORKED, IMPORTED
from patchcore.objects.printable import counted
from patchcore.report import APPLIED, FAILED, REVERTED

__all__ = ["timeline_section"]

_OPEN_LANES = 8  # more are folded away
_MOST_WORKERS = 12  # of one lane
_ROW, _WORKER_ROW = 16, 5  # heights, pixels
_DEEPEST = 4  # imports inside imports
_MARKS = {FAILED: "failed", REVERTED: "reverted", APPLIED: "applied", COMPARED: "compared", AWAKE: "awake"}
_MOST_NAMED = 8  # of a mark
_STEP = 0.4  # marks nearer to each other are one, percent


class _Bar(NamedTuple):
    begin: float  # seconds since the first process started
    end: float
    name: str
    detail: str
    row: int


class _Lane:
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
        self.events: Sequence[Mapping[str, Any]] = timeline["events"]

    @property
    def host(self) -> str:
        """Where it ran: process ids are those of a host."""
        return str(self.process.content["environment"]["host"])

    @property
    def bars(self) -> list[_Bar]:
        """What took some time; an import inside another one is on the row below."""
        lasting = sorted(
            (e for e in self.events if e["kind"] in (IMPORTED, AWAKE) and e["took"] is not None),
            key=lambda e: (e["at"], -e["took"]),
        )
        bars: list[_Bar] = []
        around: list[float] = []
        for event in lasting:
            begin = self.begin + event["at"]
            end = begin + event["took"]
            while around and around[-1] <= begin:
                around.pop()
            name = "patchcore starts" if event["kind"] == AWAKE else event["subject"]
            bars.append(_Bar(begin, end, name, event["detail"], min(len(around), _DEEPEST - 1)))
            around.append(end)
        return bars

    def spells(self) -> list[tuple[float, float]]:
        """When something happened."""
        times = [(self.begin + e["at"], self.begin + e["at"] + (e["took"] or 0)) for e in self.events]
        return [(self.begin, self.begin), *times, (self.end, self.end)]


def timeline_section(run: Run, links: Links) -> Element:
    """Return the section: the chart, and what it shows as tables."""
    timed = [process for process in run.processes if process.content.get("timeline")]
    if not timed:
        return section("timeline", "Timeline", h("p", "The reports of this run have no timeline."))
    origin = min(float(process.content["timeline"]["started"]) for process in timed)
    leading = [_Lane(process, origin) for process in timed if process.leads]
    workers = [_Lane(process, origin) for process in timed if not process.leads]
    lanes = leading or workers[:_MOST_WORKERS]
    scale = TimeScale(spell for lane in (*leading, *workers) for spell in lane.spells())
    with_lanes = _by_leader(workers, leading)
    drawn = [_draw(lane, with_lanes.get(id(lane), ()), scale) for lane in lanes]
    more = drawn[_OPEN_LANES:]
    return section(
        "timeline",
        "Timeline",
        h(
            "p",
            f"Seconds since {clock(origin)}, when the first process started. Only modules that patches wait for are "
            "shown as imports; marks that are close together are drawn as one.",
        ),
        _cuts(scale),
        _legend(),
        h("div", _axis(scale), drawn[:_OPEN_LANES], class_="chart"),
        fold(counted(len(more), "more process"), h("div", _axis(scale), more, class_="chart")) if more else None,
        _imports(run, timed, links),
        _events(lanes[0], links),
    )


def _by_leader(workers: Sequence[_Lane], leading: Sequence[_Lane]) -> dict[int, list[_Lane]]:
    """Return the workers by ``id`` of the lane they are shown with: their parent's, else the first of their rank."""
    parents = {(lane.host, lane.process.content["environment"]["pid"]): lane for lane in reversed(leading)}
    of_rank = {lane.process.rank: lane for lane in reversed(leading)}
    found: dict[int, list[_Lane]] = {}
    for worker in workers if leading else ():
        own = of_rank.get(worker.process.rank, leading[0])
        lane = parents.get((worker.host, worker.process.content["environment"].get("parent")), own)
        found.setdefault(id(lane), []).append(worker)
    return found


def _cuts(scale: TimeScale) -> Optional[Element]:
    """Say that the axis is not even, and where."""
    if not scale.breaks:
        return None
    spells = [f"{duration(pause.seconds)} from {pause.start:,.0f} s on" for pause in scale.breaks]
    where = counted(len(spells), "place")
    return h("p", h("strong", f"The axis is cut in {where}"), f", where nothing happened: {', '.join(spells)}.")


def _legend() -> Element:
    entries = (
        ("process", "process"),
        ("import", "import"),
        ("awake", "patchcore starts"),
        ("applied", "patch applied"),
        ("failed", "patch failed"),
        ("reverted", "patch reverted"),
        ("compared", "ranks compared"),
        ("worker", "worker process"),
    )
    return h(
        "ul",
        [h("li", h("span", class_=f"key {kind}", aria_hidden="true"), text) for kind, text in entries],
        class_="legend",
    )


def _axis(scale: TimeScale) -> Element:
    ticks: list[Content] = []
    last = -100.0
    for seconds in scale.ticks():
        x = scale(seconds)
        if x - last >= 6 and x <= 96:
            ticks.append(h("text", f"{seconds:g} s", x=_percent(x), y="12"))
            last = x
    cuts = [
        h("text", "//", x=_percent((pause.begin + pause.end) / 2), y="12", class_="cut", text_anchor="middle")
        for pause in scale.breaks
    ]
    return h("svg", ticks, cuts, class_="axis", height="16", width="100%", aria_hidden="true")


def _draw(lane: _Lane, workers: Sequence[_Lane], scale: TimeScale) -> Element:
    bars = lane.bars
    rows = 1 + max((bar.row for bar in bars), default=0)
    marks_at = rows * _ROW + 2
    workers_at = marks_at + _ROW
    shown = workers[:_MOST_WORKERS]
    height = workers_at + len(shown) * _WORKER_ROW + 3
    content: list[Content] = [
        [_line(scale(seconds), height) for seconds in scale.ticks()],
        _box(scale, lane.begin, lane.end, "process", 0, workers_at, f"{lane.process}: {_length(lane)}"),
        [
            _box(
                scale, pause.begin, pause.end, "break", 0, height, f"nothing for {duration(pause.seconds)}", scaled=True
            )
            for pause in scale.breaks
        ],
        [_bar(scale, bar) for bar in bars],
        _marks(lane, scale, marks_at),
        [
            _box(
                scale,
                w.begin,
                w.end,
                "worker",
                workers_at + i * _WORKER_ROW,
                _WORKER_ROW - 1,
                f"{w.process}: {_length(w)}",
            )
            for i, w in enumerate(shown)
        ],
    ]
    notes = [_length(lane)]
    if workers:
        more = f", {len(shown)} of them shown" if len(shown) < len(workers) else ""
        notes.append(counted(len(workers), "worker") + more)
    if lane.left_out:
        notes.append(f"{lane.left_out:,} later events were not kept")
    return h(
        "figure",
        h("figcaption", h("strong", str(lane.process)), " ", h("span", "; ".join(notes), class_="quiet")),
        h("svg", content, width="100%", height=str(height), role="img", aria_label=_in_words(lane)),
    )


def _bar(scale: TimeScale, bar: _Bar) -> Element:
    begin, end = scale(bar.begin), scale(bar.end)
    kind = "awake" if bar.name == "patchcore starts" else "import"
    detail = f", {bar.detail}" if bar.detail else ""
    title = f"{bar.name}: {duration(bar.end - bar.begin)} from {bar.begin:.2f} s on{detail}"
    label = h("text", bar.name, x="3", y="11") if end - begin > 5 else None
    return h(
        "svg",
        h("title", title),
        h("rect", width="100%", height=str(_ROW - 2), rx="2", class_=kind),
        label,
        x=_percent(begin),
        y=str(bar.row * _ROW + 1),
        width=_percent(max(end - begin, 0.15)),
        height=str(_ROW - 2),
    )


def _marks(lane: _Lane, scale: TimeScale, y: int) -> list[Element]:
    """What happened at moments; what cannot be told apart is one mark, in the colour of the worst of it."""
    near: dict[int, list[Mapping[str, Any]]] = {}
    for event in lane.events:
        if event["kind"] in (FAILED, REVERTED, APPLIED, COMPARED):
            near.setdefault(int(scale(lane.begin + event["at"]) / _STEP), []).append(event)
    marks = []
    for _, events in sorted(near.items()):
        kind = next(mark for status, mark in _MARKS.items() if any(event["kind"] == status for event in events))
        named = [f"{event['kind']} {event['subject'] or event['detail']}" for event in events]
        more = f"\nand {len(named) - _MOST_NAMED} more" if named[_MOST_NAMED:] else ""
        at = lane.begin + events[0]["at"]
        title = h("title", f"at {at:.2f} s:\n" + "\n".join(named[:_MOST_NAMED]) + more)
        if kind == "compared":
            body = h("circle", cx=_percent(scale(at)), cy=str(y + 6), r="5", class_=kind)
        else:
            body = h("rect", x=_percent(scale(at)), y=str(y), width="3", height="13", rx="1", class_=kind)
        marks.append(h("g", title, body))
    return marks


def _box(
    scale: TimeScale, begin: float, end: float, kind: str, y: int, height: int, title: str, *, scaled: bool = False
) -> Element:
    left, right = (begin, end) if scaled else (scale(begin), scale(end))
    return h(
        "rect",
        h("title", title),
        x=_percent(left),
        y=str(y),
        width=_percent(max(right - left, 0.15)),
        height=str(height),
        class_=kind,
    )


def _line(x: float, height: int) -> Element:
    return h("line", x1=_percent(x), x2=_percent(x), y1="0", y2=str(height), class_="grid")


def _percent(value: float) -> str:
    return f"{value:.2f}%"


def _length(lane: _Lane) -> str:
    state = "" if lane.process.content["finished"] else ", unfinished"
    return f"{duration(lane.end - lane.begin)}{state}"


def _in_words(lane: _Lane) -> str:
    kinds = [event["kind"] for event in lane.events]
    imports, applied, failed = (kinds.count(kind) for kind in (IMPORTED, APPLIED, FAILED))
    text = f"{lane.process}: {counted(imports, 'import')}, {counted(applied, 'patch', 'patches')} applied"
    return f"{text}, {failed} failed" if failed else text


def _imports(run: Run, timed: Sequence[Process], links: Links) -> Optional[Element]:
    found: dict[str, list[tuple[Process, Mapping[str, Any]]]] = {}
    for process in timed:
        for event in process.content["timeline"]["events"]:
            if event["kind"] == IMPORTED:
                found.setdefault(event["subject"], []).append((process, event))
    if not found:
        return None
    waiting: dict[str, dict[str, None]] = {}
    for patch in run.patches:
        for change in patch.changes:
            waiting.setdefault(change.target.partition(":")[0], {})[patch.name] = None
    rows = []
    for module, events in sorted(found.items(), key=lambda item: min(event["at"] for _, event in item[1])):
        took = [event["took"] for _, event in events if event["took"] is not None]
        processes = {id(process): process for process, _ in events}
        rows.append(
            (
                code(module),
                links.codes(list(waiting.get(module, ()))),
                run.who(list(processes.values())),
                span(event["at"] for _, event in events),
                span(took) if took else "",
            )
        )
    columns = ("Module", "Patches that wait for it", "Imported in", "After the start", "Took")
    return fold(
        f"Imports that patches waited for ({len(rows)})",
        table("Imports, the earliest first; times are since the start of each process", columns, rows, numeric=2),
        open=len(rows) <= 30,
    )


def _events(lane: _Lane, links: Links) -> Element:
    rows = [
        (
            f"{event['at']:.3f} s",
            badge({IMPORTED: "import", FORKED: "forked"}.get(event["kind"], event["kind"])),
            links.code(event["subject"]) if event["subject"] else "",
            "" if event["took"] is None else duration(event["took"]),
            folded(event["detail"]),
        )
        for event in sorted(lane.events, key=lambda event: float(event["at"]))
    ]
    title = f"All events of {lane.process} ({len(rows)})"
    columns = ("After its start", "What", "Module or patch", "Took", "Detail")
    return fold(title, table(f"Events of {lane.process}", columns, rows))
