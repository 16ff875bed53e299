"""docs/performance.md has figures for every number that is held to a limit; how fast anything is, is not tested."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.measure import Samples
from benchmarks.rows import Budget, RatioLimit, Row, compare

FACTS = {"processors": 2, "date": "2026-01-02", "python": "CPython 3.11.7, Linux-6.1-x86_64"}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("tools.performance")


def row(subject: str, what: str, ours: float, theirs: float = 1.0) -> Row:
    times = (Samples((value,) * 3) for value in (ours, theirs))
    return compare(subject, what, "f(*args)", *times, budget=Budget(), limit=RatioLimit(2))


def cells(page: str) -> list[list[str]]:
    """Return the cells of the table of figures, without its head."""
    figures = page.partition("<!-- figures of costs -->")[2].partition("<!-- end -->")[0]
    lines = [line for line in figures.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_every_number_has_a_measured_row_on_the_page(tool: ModuleType) -> None:
    table = cells(tool.PAGE.read_text(encoding="utf-8"))
    assert [first for first, *_ in table if first] == [number.what for number in tool.NUMBERS]
    assert all(len(line) == 8 and all(line[1:]) for line in table)
    assert {line[-1].partition(",")[0] for line in table} <= {"met", "**missed**"}


def test_a_missed_limit_is_said_with_how_far_it_is_missed(tool: ModuleType) -> None:
    rows = [row("calls", "Wrap, function of 2", 3.0), row("calls", "Wrap, method", 1.5)]
    page = tool.rendered("<!-- figures of costs -->\nwritten before\n<!-- end -->\n", FACTS, rows)
    assert "written before" not in page
    assert "- Date: 2026-01-02\n- Cores: 2\n- Python: CPython 3.11.7\n" in page
    assert "2 limits were judged: 1 are met, 1 are missed." in page
    found = [line for line in cells(page) if line[1].startswith("Wrap")]
    assert [line[0] for line in found] == ["a call through a `Wrap`", ""]
    assert found[0][2:] == ["3 s", r"f(\*args)", "1 s", "3.00x (3.00-3.00)", "<= 2x", "**missed**, 1.500x the limit"]
    assert found[1][-1] == "met"


def test_what_plugins_run_is_on_the_page_beside_what_is_none_of_theirs(tool: ModuleType) -> None:
    rows = [
        row("graph", "x * 2 + 1", 3.0),
        compare("graph", "x * 2 + 1", "reference", Samples((1.0,)), Samples((1.0,)), budget=Budget()),
        compare("graph", "x * 2 + 1", "inductor", Samples((1.0,)), Samples((2.0,)), budget=Budget()),
    ]
    page = tool.rendered("<!-- figures of plugins -->\n<!-- end -->\n", {}, rows)
    assert "reference" not in page
    assert "| 2.00x" not in page
    assert "| inductor | 2 s | 0.50x (0.50-0.50) | none | - |" in page
    assert [line.split("|")[2].strip() for line in page.splitlines() if "not measured" in line] == ["not measured"] * (
        len(tool.PLUGINS) - 1
    )


def test_the_page_has_figures_of_each_plugin_that_is_compared(tool: ModuleType) -> None:
    page = tool.PAGE.read_text(encoding="utf-8")
    part = page.partition("<!-- figures of plugins -->")[2].partition("<!-- end -->")[0]
    assert "not measured" not in part
    assert all(f"| {number.what} |" in part for number in tool.PLUGINS)
