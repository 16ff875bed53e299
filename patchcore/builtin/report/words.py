"""Words: processes, times and numbers as people write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from patchcore.builtin.report.reading import Process
from patchcore.builtin.run.roles import LAUNCHER, MAIN, RANK, WORKER
from patchcore.objects.printable import counted, inflected

__all__ = ["clock", "duration", "numbers", "span", "who"]

#: Of numbers that follow each other; more are not named.
_MOST_RUNS = 16


def numbers(values: Iterable[int]) -> str:
    """Return numbers with their runs shortened, ``0-3, 7``; of many runs the first and the last."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    texts = [str(first) if first == last else f"{first}\N{EN DASH}{last}" for first, last in runs]
    if len(texts) > _MOST_RUNS:
        texts = [*texts[: _MOST_RUNS // 2], "\N{HORIZONTAL ELLIPSIS}", texts[-1]]
    return ", ".join(texts)


def who(group: Sequence[Process], everybody: Sequence[Process]) -> str:
    """Return which of the processes of a run are meant.

    Args:
        group: these.
        everybody: all of them.
    """
    if len(group) == len(everybody):
        return "all processes" if len(everybody) > 1 else "the process"
    parts = []
    for role in (MAIN, LAUNCHER, RANK, WORKER):
        members = [process for process in group if process.content["role"] == role]
        ranks = numbers(process.rank for process in members)
        ranks_of = inflected(len({process.rank for process in members}), "rank")
        if members and role in (MAIN, LAUNCHER):
            parts.append(role if len(members) == 1 else counted(len(members), role))
        elif members and role == RANK:
            parts.append(f"{ranks_of} {ranks}")
        elif members:
            parts.append(f"{counted(len(members), role)} of {ranks_of} {ranks}")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """Return a time in seconds since the epoch as date and time, the same everywhere."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float) -> str:
    """Return a length of time, given in seconds, in the unit that suits it."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def span(values: Iterable[float]) -> str:
    """Return the range of lengths of time in seconds, as one where they look the same."""
    least, most = (duration(value) for value in _ends(values))
    return least if least == most else f"{least} \N{EN DASH} {most}"


def _ends(values: Iterable[float]) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)
