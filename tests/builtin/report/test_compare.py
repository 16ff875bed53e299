"""Two runs side by side, in text, as JSON and on the page."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from page_runs import a_report
from reports import SHOP, Reports

from patchcore.builtin.report.compare import RunDifference, compare
from patchcore.builtin.report.html import make_page
from patchcore.builtin.report.reading import Process
from patchcore.cli import main


@pytest.fixture
def content(tmp_path: Path, make_package: Any) -> dict[str, Any]:
    make_package(SHOP)
    return a_report(Reports(tmp_path / "reports"))


@pytest.fixture
def other(content: dict[str, Any]) -> dict[str, Any]:
    """The report of another run: a patch is skipped, a library is newer, a setting is gone."""
    changed = copy.deepcopy(content)
    changed["run"] = "later"
    changed["patches"][0].update(status="skipped", reason="it does not fit")
    changed["manifest"]["libraries"] = {**changed["manifest"]["libraries"], "mmcv": "2.1.0"}
    changed["settings"] = [{"name": "count", "value": "True", "origin": "--count"}]
    return changed


def test_what_differs_is_told_and_nothing_else(content: dict[str, Any], other: dict[str, Any]) -> None:
    name = content["patches"][0]["name"]
    found = compare([Process(content)], [Process(other)])
    assert sorted(found) == [
        RunDifference("library", "mmcv", "-", "2.1.0"),
        RunDifference("patch", name, "applied", "skipped: it does not fit"),
        RunDifference("setting", "count", "-", "True"),
    ]
    assert compare([Process(content)], [Process(content)]) == []


def test_calls_are_compared_where_both_counted(content: dict[str, Any], other: dict[str, Any]) -> None:
    other["patches"] = copy.deepcopy(content["patches"])
    other["patches"][0]["changes"][0].update(calls=4, replaced=None)
    assert "calls" not in {d.kind for d in compare([Process(content)], [Process(other)])}
    content["patches"][0]["changes"][0].update(calls=3, replaced=None)
    calls = [d for d in compare([Process(content)], [Process(other)]) if d.kind == "calls"]
    assert calls == [RunDifference("calls", content["patches"][0]["name"], "3", "4")]


def test_the_page_shows_both_runs(content: dict[str, Any], other: dict[str, Any]) -> None:
    page = make_page([Process(other)], compared=[Process(content)])
    assert f"Run {content['run']}" in page
    assert "Run later, this one" in page
    assert 'id="compared"' not in make_page([Process(other)])


class TestCommand:
    @pytest.fixture
    def folder(self, tmp_path: Path, content: dict[str, Any], other: dict[str, Any]) -> Path:
        """A folder with the reports of two runs."""
        other["written"] += 10
        folder = tmp_path / "reports"
        for number, report in enumerate((content, other)):
            report["environment"]["pid"] = 100 + number
            (folder / f"report-0-{100 + number}-abcdef.json").write_text(json.dumps(report))
        return folder

    def test_the_run_to_compare_with_stands_first(self, folder: Path, content: dict[str, Any], capsys: Any) -> None:
        main(["report", str(folder), "--compare", content["run"]])
        printed = capsys.readouterr()
        assert f"Run {content['run']} compared with run later" in printed.out
        assert "left out" not in printed.err

    def test_without_a_run_to_show_it_is_not_the_compared_one(
        self, folder: Path, content: dict[str, Any], capsys: Any
    ) -> None:
        main(["report", str(folder), "--compare", "later", "--format", "json"])
        shown = json.loads(capsys.readouterr().out)
        assert shown["runs"] == [content["run"]]
        assert {d["kind"] for d in shown["differences"]} >= {"patch", "library", "setting"}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--compare", "latr"], "no report of run 'latr'"),
            (["--compare", "later", "--run", "later"], "this is the run that is shown; name another one"),
            (["--compare", "later", "--all"], "--compare compares one run with another; leave out --all"),
        ],
    )
    def test_what_cannot_be_compared(self, folder: Path, arguments: list[str], message: str, capsys: Any) -> None:
        assert main(["report", str(folder), *arguments]) == 2
        assert message in capsys.readouterr().err
