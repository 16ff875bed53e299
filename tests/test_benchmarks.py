"""The benchmarks run to their end and report every row; how fast anything is, is not tested."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.measure import Samples, interleave
from benchmarks.rows import Budget, Identity, RatioLimit, Row, TimeLimit, compare

ROOT = Path(__file__).resolve().parent.parent
#: How many rows each subject that needs no torch has.
ROWS = {"import": 4, "compat-import": 2, "list": 4, "calls": 20, "apply": 11, "import-watch": 6}


def run_benchmarks(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_quick_run_reports_every_row_in_table_and_json(tmp_path):
    file = tmp_path / "rows.json"
    done = run_benchmarks(*ROWS, "--quick", "--json", str(file))
    assert done.returncode == 0, done.stderr
    content = json.loads(file.read_text())
    assert content["schema_version"] == 1
    assert Counter(row["subject"] for row in content["rows"]) == ROWS
    table = done.stdout.splitlines()
    for row in content["rows"]:
        assert any(row["what"] in line and row["alternative"] in line for line in table), row
        if row["verdict"].startswith("skipped"):
            assert row["verdict"] == "skipped: wrapt not installed"
            assert importlib.util.find_spec("wrapt") is None
            continue
        for samples in (row["ours"], row["theirs"], row["ratio"]):
            assert samples["rounds"]
            assert all(map(math.isfinite, [samples["median"], *samples["quartiles"], *samples["rounds"]])), row
        assert row["met"] is None
        assert row["verdict"] == ("not judged in a quick run" if row["limit"] else "")


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
