"""Adds up times by modules, operators and lines of the program, from the markers in chrome traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple, Optional

from torch_markers.options import CATEGORY, VIEWS
from torch_markers.ranges import parse

__all__ = ["Line", "Summary"]


class Line(NamedTuple):
    """The time of one module, operator or line of the program.

    Args:
        name: of the module, operator or line.
        backward: whether this is of the backward pass.
        calls: how often it was called.
        total: microseconds of all calls, those inside of others of the same name counted once.
        own: microseconds in which no marked call inside of it ran.
    """

    name: str
    backward: bool
    calls: int
    total: float
    own: float


class _Range(NamedTuple):
    start: float
    end: float
    keys: tuple[Optional[str], ...]
    backward: bool


@dataclass
class _Sum:
    count: int = 0
    total: float = 0.0
    own: float = 0.0


def _module_of(said: Mapping[str, Any]) -> Optional[str]:
    if "strRepr" not in said:
        return None
    return f"{said.get('name', '?')} ({str(said.get('mod', '?')).rpartition('.')[2]})"


def _op_of(said: Mapping[str, Any]) -> Optional[str]:
    if "op" not in said:
        return None
    return f"{said['mod']}.{said['op']}" if said.get("mod") else str(said["op"])


def _site_of(said: Mapping[str, Any]) -> Optional[str]:
    lines = said.get("traceMarker")
    return str(lines[-1]) if isinstance(lines, list) and lines else None


#: The key of each view in the text of a range.
_TOLD: tuple[Callable[[Mapping[str, Any]], Optional[str]], ...] = (_module_of, _op_of, _site_of)


@dataclass
class Summary:
    """The markers of some traces."""

    ranges: int = 0
    events: int = 0
    _by_thread: dict[tuple[int, Any, Any], list[_Range]] = field(default_factory=dict)

    def add(self, events: Iterable[Any], file: int = 0) -> None:
        """Take the events of a trace.

        Args:
            events: of :func:`torch_markers.reading.events`.
            file: tells processes apart that have the same number on different hosts.
        """
        for event in events:
            self.events += 1
            if not isinstance(event, dict) or event.get("ph") != "X":
                continue
            said = event.get("args") if event.get("cat") == CATEGORY else parse(str(event.get("name", "")))
            if not isinstance(said, Mapping) or str(event.get("cat", "")).startswith("gpu_"):
                continue  # a device's copy of a range of the host
            start, length = float(event["ts"]), float(event.get("dur", 0))
            keys = tuple(told(said) for told in _TOLD)
            made = _Range(start, start + length, keys, said.get("dir") == "bwd")
            self._by_thread.setdefault((file, event.get("pid"), event.get("tid")), []).append(made)
            self.ranges += 1

    def lines(self, view: str, order: str = "own") -> list[Line]:
        """Return the ranges with their times, the longest first.

        Args:
            view: one of :data:`torch_markers.options.VIEWS`.
            order: ``own``, ``total`` or ``calls``.
        """
        index = VIEWS.index(view)
        sums: dict[tuple[str, bool], _Sum] = {}
        for ranges in self._by_thread.values():
            ranges.sort(key=lambda r: (r.start, -r.end))
            _add(ranges, index, sums)
        found = [Line(name, backward, s.count, s.total, s.own) for (name, backward), s in sums.items()]
        return sorted(found, key=lambda line: (-getattr(line, order), line.name, line.backward))


def _add(ranges: Iterable[_Range], index: int, sums: dict[tuple[str, bool], _Sum]) -> None:
    """Add up the ranges of one thread, in the order of their starts; one without a name belongs to that around it."""
    stack: list[tuple[float, tuple[str, bool]]] = []  # ends and names of the ranges around
    for start, end, keys, backward in ranges:
        name = keys[index]
        if name is None:
            continue
        while stack and stack[-1][0] <= start:
            stack.pop()
        key = (name, backward)
        length = end - start
        if stack:
            sums[stack[-1][1]].own -= min(end, stack[-1][0]) - start
        line = sums.setdefault(key, _Sum())
        line.count += 1
        line.own += length
        if all(around != key for _, around in stack):
            line.total += length
        stack.append((end, key))
