"""words.py: processes, times and numbers as people say them."""

from __future__ import annotations

import pytest

from patchcore.builtin.report.reading import Process
from patchcore.builtin.report.words import clock, counted, duration, numbers, span, who


def process(role: str, rank: int = 0) -> Process:
    return Process({"role": role, "environment": {"rank": rank}})


def test_numbers() -> None:
    assert numbers([7, 2, 1, 3, 9, 10, 1]) == "1\N{EN DASH}3, 7, 9\N{EN DASH}10"
    assert numbers([]) == ""
    assert numbers(range(0, 32, 2)) == ", ".join(map(str, range(0, 32, 2)))
    assert numbers(range(0, 34, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, \N{HORIZONTAL ELLIPSIS}, 32"


def test_who() -> None:
    ranks = [process("rank", rank) for rank in range(4)]
    workers = [process("worker", rank) for rank in (0, 0, 1)]
    everybody = [process("launcher"), *ranks, *workers]
    assert who(everybody, everybody) == "all processes"
    assert who(everybody[:1], everybody[:1]) == "the process"
    assert who(ranks, everybody) == "ranks 0\N{EN DASH}3"
    assert who(ranks[1:2], everybody) == "rank 1"
    assert who([everybody[0], ranks[2], workers[0]], everybody) == "launcher, rank 2, 1 worker of rank 0"
    assert who(workers, everybody) == "3 workers of ranks 0\N{EN DASH}1"
    assert who([process("main"), process("main")], everybody) == "2 mains"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.0123, "12 ms"),
        (1.0, "1.00 s"),
        (59.96, "60.0 s"),
        (150, "2 min"),
        (7200, "2 h 00 min"),
        (36061, "10 h 01 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_spans_and_times_and_counts() -> None:
    assert span([1.0, 1.001]) == "1.00 s"
    assert span([2.0, 1.0, 1.5]) == "1.00 s \N{EN DASH} 2.00 s"
    assert clock(0) == "1970-01-01 00:00:00 UTC"
    assert counted(1, "patch", "patches") == "1 patch"
    assert counted(1200, "row") == "1,200 rows"
