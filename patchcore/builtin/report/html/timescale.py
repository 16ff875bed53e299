"""A scale of time on which long spells without news are short: hours of training do not hide the first seconds."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Break", "TimeScale"]

_BREAK = 5.0  # width of a spell that is cut short, in percent
_MOST_BREAKS = 6
_TICKS = 8
_INSTANT = 1e-6  # seconds; a shorter spell is one moment


class Break(NamedTuple):
    """A spell without news.

    Args:
        begin, end: where it is on the scale, in percent.
        start: when it begins, in seconds.
        seconds: how long it really is.
    """

    begin: float
    end: float
    start: float
    seconds: float


class TimeScale:
    """Maps seconds to percent of a width.

    Args:
        spells: from when to when something happened, in seconds; at least one.
    """

    def __init__(self, spells: Iterable[tuple[float, float]]) -> None:
        busy = _merged(spells)
        length = sum(end - begin for begin, end in busy)
        pauses = [(begin[1], end[0]) for begin, end in zip(busy, busy[1:])]
        long = [pause for pause in pauses if pause[1] - pause[0] > max(1.0, length / 2)]
        cut = sorted(sorted(long, key=lambda pause: pause[0] - pause[1])[:_MOST_BREAKS])
        whole = busy[-1][1] - busy[0][0]
        shown = whole - sum(end - begin for begin, end in cut)
        shown = shown if shown >= _INSTANT else 0.0
        per_second = (100 - _BREAK * len(cut)) / shown if shown else 0.0
        self._times, self._places = [busy[0][0]], [0.0]
        self.breaks: list[Break] = []
        for begin, end in cut:
            self._add(begin, (begin - self._times[-1]) * per_second)
            self._add(end, _BREAK)
            self.breaks.append(Break(self._places[-2], self._places[-1], begin, end - begin))
        self._add(busy[-1][1], (busy[-1][1] - self._times[-1]) * per_second)
        self._shown = shown

    def __call__(self, seconds: float) -> float:
        """Return where ``seconds`` is, in percent."""
        number = min(max(bisect.bisect_right(self._times, seconds), 1), len(self._times) - 1)
        begin, end = self._times[number - 1], self._times[number]
        share = min(max((seconds - begin) / (end - begin), 0.0), 1.0) if end > begin else 0.0
        place = self._places[number - 1] + share * (self._places[number] - self._places[number - 1])
        return min(max(place, 0.0), 100.0)

    def ticks(self) -> list[float]:
        """Return round numbers of seconds that are on the scale, not in a break."""
        step = _round_up(self._shown / _TICKS)
        if not step:
            return [self._times[0]]
        found = []
        for number in range(0, len(self._times) - 1, 2):  # every other piece is a break
            begin, end = self._times[number], self._times[number + 1]
            found += [count * step for count in range(math.ceil(begin / step), math.floor(end / step) + 1)]
        return found

    def _add(self, seconds: float, width: float) -> None:
        self._times.append(seconds)
        self._places.append(self._places[-1] + width)


def _merged(spells: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spells):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _round_up(step: float) -> float:
    if step <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * 0.999)
