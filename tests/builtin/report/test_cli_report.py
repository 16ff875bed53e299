"""``patchcore report``: who took part in a run, and what is wrong with it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
from patch_folder import Result, run_command
from reports import LABEL, PRICE, Reports, patcher

import patchcore as pc


@pytest.fixture
def report(reports: Reports, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    return functools.partial(run_command, capsys, "report", str(reports.folder))


def test_a_run_without_findings(reports: Reports, report: Callable[..., Result]) -> None:
    reports.write(patcher(PRICE))
    reports.write(patcher(PRICE), 1, role="rank")
    result = report()
    assert (result.code, result.err) == (0, "")
    assert result.rows() == [
        ["Run r1"],
        ["RANK", "ROLE", "PID", "HOST", "STATE", "PATCHES", "PROGRAM"],
        ["0", "main", "101", "box", "finished", "1 pending", "train.py"],
        ["1", "rank", "102", "box", "finished", "1 pending", "train.py"],
        [""],
        ["1 patch pending: 1 module not imported; --pending lists them"],
        [""],
        ["no findings"],
    ]
    assert report("--pending").rows()[5:8] == [
        ["Pending"],
        ["WHY", "PATCHES", "PROCESS", "NAMES"],
        ["waits for the import of shop", "1", "all processes", "shop.price"],
    ]


def test_pending_patches_are_counted_by_the_module_they_wait_for(
    reports: Reports, report: Callable[..., Result]
) -> None:
    elsewhere = pc.Patch("csv.reader", [pc.Replace("wave:open", len)])
    reports.write(patcher(PRICE, LABEL))
    reports.write(patcher(PRICE, elsewhere), 1, role="rank")
    assert json.loads(report("--format", "json").out)["pending"] == [
        {
            "reason": "waits for the import of shop",
            "patches": ["shop.price", "shop.label"],
            "processes": ["rank 0, main 101 on box", "rank 1, rank 102 on box"],
        },
        {
            "reason": "waits for the import of wave",
            "patches": ["csv.reader"],
            "processes": ["rank 1, rank 102 on box"],
        },
    ]


def test_a_run_with_findings(reports: Reports, report: Callable[..., Result]) -> None:
    reports.write(patcher(PRICE))
    reports.write(patcher(PRICE, LABEL), 1, role="rank", finished=False)
    result = report()
    assert result.code == 1
    rows = result.rows()
    assert ["1", "rank", "102", "box", "unfinished", "2 pending", "train.py"] in rows
    assert rows[-4:-2] == [["Findings"], ["KIND", "PROCESS", "SUBJECT", "MESSAGE"]]
    assert rows[-2][:3] == ["difference", "rank 1, rank 102 on box", "patch shop.label"]
    assert rows[-1][:2] == ["unfinished", "rank 1, rank 102 on box"]


def asked(rank: int, line: int = 7) -> dict[str, Any]:
    return {"file": "/work/train.py", "line": line, "cuda": f"cuda:{rank}", "kind": "argument", "count": 2}


def sections(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a plugin says about lines of a program: ``lines`` are for others than this report."""
    return [{"title": "moved", "lines": ["as text"], "mark": "", "counts": "", "data": list(rows)}]


def test_a_line_of_the_program_is_one_row_of_all_ranks(reports: Reports, report: Callable[..., Result]) -> None:
    for rank in range(6):
        rows = (asked(rank), {**asked(0, 9), "kind": "call"}) if rank < 2 else (asked(rank),)
        reports.write(patcher(PRICE), rank, role="rank", sections=sections(*rows))
    result = report()
    rows = result.rows()
    start = rows.index(["moved"])
    assert rows[start + 1 : start + 9] == [
        ["PLACE", "CUDA", "KIND", "COUNT", "PROCESS"],
        ["/work/train.py:7", "cuda:0", "argument", "12", "all processes"],
        *[[f"cuda:{rank}"] for rank in (1, 2, 3)],
        ["and 2 more"],
        ["/work/train.py:9", "cuda:0", "call", "4", "ranks 0\N{EN DASH}1"],
        ["2 lines: 1 argument, 1 call; 16 in all"],
    ]
    assert "as text" not in result.out
    (merged,) = json.loads(report("--format", "json").out)["lines"]
    assert (merged["title"], merged["lines"], merged["kinds"]) == ("moved", 2, {"argument": 1, "call": 1})
    assert [(row["line"], row["count"], len(row["entries"])) for row in merged["rows"]] == [(7, 12, 6), (9, 4, 1)]


def test_rows_without_a_place_are_shown_as_the_processes_wrote_them(
    reports: Reports, report: Callable[..., Result]
) -> None:
    reports.write(patcher(PRICE), sections=sections({"name": "a"}))
    result = report()
    assert ["all processes", "as text"] in result.rows()
    assert json.loads(report("--format", "json").out)["lines"] == []


def test_what_plugins_report_is_merged_line_by_line(reports: Reports, report: Callable[..., Result]) -> None:
    one = {"title": "audit", "lines": ["a.py:1", "b.py:2"], "mark": "", "counts": "", "data": None}
    device = {"title": "device", "lines": ["emulated"], "mark": "", "counts": "", "data": None}
    reports.write(patcher(PRICE), 0, sections=[one, device])
    reports.write(patcher(PRICE), 1, sections=[{**one, "lines": ["b.py:2", "c.py:3"]}, device])
    rows = report().rows()
    start = rows.index(["audit"])
    assert [row for row in rows[start : start + 9] if row != [""]] == [
        ["audit"],
        ["PROCESS", "WHAT"],
        ["rank 0, main 101 on box", "a.py:1"],
        ["all processes", "b.py:2"],
        ["rank 1, main 102 on box", "c.py:3"],
        ["device"],
        ["PROCESS", "WHAT"],
        ["all processes", "emulated"],
    ]


def test_json(reports: Reports, report: Callable[..., Result]) -> None:
    reports.write(patcher(PRICE))
    assert json.loads(report("--format", "json").out)["findings"] == []
    reports.write(patcher(PRICE.evolve(options={"n": 1})), 1, role="rank")
    result = report("--format", "json")
    assert result.code == 1
    content = json.loads(result.out)
    assert content["schema_version"] == 1
    assert content["runs"] == ["r1"]
    assert [process["environment"]["pid"] for process in content["processes"]] == [101, 102]
    assert content["groups"][content["processes"][0]["group"]]["manifest"]["patches"].keys() == {"shop.price"}
    (finding,) = content["findings"]
    assert finding.keys() == {"kind", "processes", "subject", "message"}
    assert (finding["kind"], finding["subject"]) == ("difference", "patch shop.price")


def test_json_has_equal_parts_once_and_each_process_on_request(reports: Reports, report: Callable[..., Result]) -> None:
    for rank in range(3):
        reports.write(patcher(PRICE), rank, role="rank", finished=rank < 2)
    reports.write(patcher(LABEL), 3, role="rank")
    content = json.loads(report("--format", "json").out)
    assert [process["group"] for process in content["processes"]] == [0, 0, 0, 1]
    assert [process["finished"] for process in content["processes"]] == [True, True, False, True]
    assert [[patch["name"] for patch in group["patches"]] for group in content["groups"]] == [
        ["shop.price"],
        ["shop.label"],
    ]
    whole = json.loads(report("--format", "json", "--processes").out)
    assert "groups" not in whole
    for process, each in zip(content["processes"], whole["processes"]):
        parts = content["groups"][process.pop("group")]
        assert process.pop("started") == each["timeline"]["started"]
        assert each["timeline"]["events"]
        del each["timeline"]
        assert {**process, **parts} == each


def test_many_processes_are_shown_in_groups(reports: Reports, report: Callable[..., Result]) -> None:
    """Rows for thousands of ranks would hide the few that differ; what is said of the run stays the same."""
    first = json.loads(reports.write(patcher(PRICE), 0, role="rank").read_text())
    for rank in range(1, 100):
        facts = {**first["environment"], "rank": rank, "pid": 1000 + rank, "host": f"node{rank // 8}", "ranks": 100}
        content = {**first, "environment": facts, "finished": bool(rank % 3)}
        (reports.folder / f"report-{rank}.json").write_text(json.dumps(content))
    result = report()
    assert result.rows()[:5] == [
        ["Run r1"],
        ["PROCESSES", "HOSTS", "STATE", "PATCHES", "WHICH", "PROGRAM"],
        ["67", "14", "finished", "1 pending", ANY, "train.py"],
        [
            "33",
            "13",
            "unfinished",
            "1 pending",
            "ranks 3, 6, 9, 12, 15, 18, 21, 24, \N{HORIZONTAL ELLIPSIS}, 99",
            "train.py",
        ],
        ["100 processes; --processes shows each"],
    ]
    each = report("--processes")
    assert len([row for row in each.rows() if "train.py" in row]) == 100
    assert result.out.partition("Findings")[2] == each.out.partition("Findings")[2] != ""


# --- several runs in one directory ---------------------------------------------------------------------------------


@pytest.fixture
def three_runs(reports: Reports) -> Reports:
    """The names of the runs, the times and the patches are in another order each."""
    for run, written, patches in (("b2b2", 100.0, [PRICE]), ("c3c3", 300.0, [LABEL]), ("a1a1", 200.0, [PRICE])):
        reports.write(patcher(*patches), run=run, written=written)
        reports.write(patcher(*patches), 1, role="rank", run=run, written=written - 50, finished=run != "a1a1")
    return reports


def test_the_latest_run_is_shown(three_runs: Reports, report: Callable[..., Result]) -> None:
    result = report()
    assert result.code == 0
    assert result.rows()[0] == ["Run c3c3"]
    assert [row[2] for row in result.rows()[2:4]] == ["103", "104"]
    assert result.err == "patchcore: reports of earlier runs are left out: b2b2, a1a1 (--run ID, --all)\n"


def test_a_run_by_name(three_runs: Reports, report: Callable[..., Result]) -> None:
    result = report("--run", "a1a1")
    assert (result.code, result.err) == (1, "")
    assert result.rows()[0] == ["Run a1a1"]
    assert [row[2] for row in result.rows()[2:4]] == ["105", "106"]
    assert report("--run", "b2b2").code == 0


def test_an_unknown_run_is_a_usage_error_with_the_nearest(three_runs: Reports, report: Callable[..., Result]) -> None:
    result = report("--run", "a1a2")
    assert (result.code, result.out) == (2, "")
    assert result.err == "patchcore: no report of run 'a1a2' (there are: b2b2, a1a1, c3c3); did you mean 'a1a1'?\n"
    assert "did you mean" not in report("--run", "zzzzzz").err


# --- what cannot be read -------------------------------------------------------------------------------------------


def test_no_directory(reports: Reports, report: Callable[..., Result]) -> None:
    result = report()
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"patchcore: no directory '{reports.folder}'; patchcore run --report-dir {reports.folder} ... makes one\n"
    )


def test_a_broken_report(reports: Reports, report: Callable[..., Result]) -> None:
    path = reports.write(patcher(PRICE))
    path.write_bytes(path.read_bytes()[:-20])
    for arguments in ((), ("--all",), ("--format", "json")):
        result = report(*arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(
            f"patchcore: none of the reports in {reports.folder} can be read:\n"
            f"  {path.name}: is no report of a process: JSONDecodeError"
        )
