"""The benchmarks run to their end and report every row; how fast anything is, is not tested."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import compared

ROOT = Path(__file__).resolve().parents[2]
#: How many rows each subject that needs no torch has.
ROWS = {
    "import": 2,
    "compat-patches": 3,
    "list": 4,
    "check": 1,
    "calls": 15,
    "apply": 6,
    "run-options": 3,
    "report": 3,
}


def test_quick_run_reports_every_row_in_table_and_json(tmp_path, monkeypatch):
    file = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks", *ROWS, "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    content = json.loads(file.read_text())
    assert content["schema_version"] == 1
    assert Counter(row["subject"] for row in content["rows"]) == ROWS
    table = done.stdout.splitlines()
    for row in content["rows"]:
        assert any(row["what"] in line and row["alternative"] in line for line in table), row
        assert row["met"] is None
        if row["ratio"] is None:  # a busy machine
            assert row["verdict"].startswith("not measured: ")
            continue
        for samples in (row["ours"], row["theirs"], row["ratio"]):
            assert samples["rounds"]
            assert all(map(math.isfinite, [samples["median"], *samples["quartiles"], *samples["rounds"]])), row
        assert row["verdict"] == ("not judged in a quick run" if row["limit"] else "")
    monkeypatch.syspath_prepend(str(ROOT))
    performance = importlib.import_module("tools.performance")  # writes docs/performance.md
    for number in performance.NUMBERS:
        assert number.subject not in ROWS or performance.rows_of(number, compared.read(file)), number


@pytest.mark.slow
def test_graph_backend_is_measured_where_inductor_has_no_compiler_and_the_row_says_so(tmp_path):
    """Without inductor it takes a fraction of the time, and what is measured of inductor is measured like the rest."""
    file = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks", "graph", "--quick", "--json", str(file)]
    env = {**os.environ, "CXX": str(tmp_path / "no-such-compiler")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert Counter(row["subject"] for row in rows) == {"graph": 11}
    for row in rows:
        if "inductor" in row["alternative"]:
            assert row["verdict"].startswith("skipped: inductor cannot compile here: "), row
        else:
            assert all(value > 0 for value in row["ratio"]["rounds"]), row
            assert row["verdict"] == ("not judged in a quick run" if row["limit"] else "")
