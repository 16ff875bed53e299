"""What the benchmarks make of their measurements; that they run is tested in integration."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.measure import Samples, interleave
from benchmarks.rows import Budget, Identity, RatioLimit, Row, TimeLimit, compare

ROOT = Path(__file__).resolve().parents[2]


def run_benchmarks(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)


def test_unknown_name_is_a_usage_error_that_lists_the_names():
    done = run_benchmarks("improt")
    assert done.returncode == 2
    assert "'improt'" in done.stderr
    assert "import-watch" in done.stderr


@pytest.mark.parametrize(
    ("limit", "met"),
    [
        (TimeLimit(2.0), True),
        (TimeLimit(1.9), False),
        (RatioLimit(4), True),
        (RatioLimit(3.9), False),
        (Identity(True), True),
        (Identity(False), False),
    ],
)
def test_verdict_says_whether_the_limit_is_met(limit, met):
    ours, theirs = Samples((2.0, 1.0, 9.0)), Samples((0.5, 0.25, 2.0))
    row = compare("calls", "ours", "theirs", ours, theirs, budget=Budget(), limit=limit)
    assert row.met is met
    assert row.verdict.startswith("met" if met else "MISSED")
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_ratio_is_taken_within_rounds():
    assert Samples((1.0, 10.0)).ratio_to(Samples((2.0, 20.0))).values == (0.5, 0.5)
    with pytest.raises(ValueError, match="no measurable time"):
        Samples((1.0,)).ratio_to(Samples((0.0,)))


def test_interleave_counts_every_round_but_the_first():
    calls = Counter()
    order = []

    def timing(name):
        def run():
            calls[name] += 1
            order.append(name)
            return float(calls[name])

        return run

    samples = interleave({"a": timing("a"), "b": timing("b")}, 3)
    assert samples["a"].values == samples["b"].values == (2.0, 3.0, 4.0)
    assert all(set(order[i : i + 2]) == {"a", "b"} for i in range(0, 8, 2))
