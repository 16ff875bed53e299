"""What the benchmarks make of their measurements; that they run is tested in integration."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import compared
from benchmarks.measure import Samples, interleave
from benchmarks.rows import Budget, Identity, RatioLimit, Row, TimeLimit, compare

ROOT = Path(__file__).resolve().parents[2]


def run_benchmarks(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)


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


# --- two results -----------------------------------------------------------------------------------------------------


def row(what, ours, theirs=1.0, limit=None):
    samples = (Samples(tuple(v * n for n in (0.99, 1.0, 1.01))) for v in (ours, theirs))
    return compare("calls", what, "the same by hand", *samples, budget=Budget(), limit=limit)


def saved(folder, name, rows):
    file = folder / name
    content = {"schema_version": compared.SCHEMA_VERSION, "rows": [row.to_dict() for row in rows]}
    file.write_text(json.dumps(content))
    return str(file)


def test_two_saved_results_are_compared_without_measuring(tmp_path):
    old = saved(tmp_path, "old.json", [row("slower", 2.0), row("faster", 3.0), row("equal", 1.0), row("gone", 1.0)])
    new = saved(tmp_path, "new.json", [row("slower", 3.0, limit=RatioLimit(2)), row("faster", 1.5), row("equal", 1.05)])
    done = run_benchmarks("--compare", old, new)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "worse: 1",
        "  1.50x  calls: slower, 2 s -> 3 s; against the same by hand: 2.00x -> 3.00x; limit <= 2x MISSED",
        "better: 1",
        "  0.50x  calls: faster, 3 s -> 1.5 s; against the same by hand: 3.00x -> 1.50x",
        "about the same: 1; within the noise: 0",
        "only in the old result, or not measured in the other: 1",
        "only in the new result, or not measured in the other: 0",
    ]


def test_a_machine_that_is_slower_is_no_change():
    (change,) = compared.changes([row("work", 2.0, 1.0)], [row("work", 6.0, 3.0)])
    assert (change.verdict, round(change.factor, 3)) == (compared.SAME, 1)


def test_a_change_within_the_spread_of_the_rounds_is_unclear():
    def noisy(ours):
        return compare("calls", "w", "a", Samples(ours), Samples((1.0,) * len(ours)), budget=Budget())

    (change,) = compared.changes([noisy((1.0, 2.0, 3.0, 4.0, 5.0))], [noisy((1.5, 2.5, 4.0, 5.0, 6.0))])
    assert change.verdict == compared.UNCLEAR


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
