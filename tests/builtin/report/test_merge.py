"""merge.py: the reports of a run's processes, read and compared."""

from __future__ import annotations

import importlib
import json

from reports import LABEL, PRICE, Reports, new, patcher

import patchcore as pc
from patchcore import __version__
from patchcore.builtin.report.merge import findings
from patchcore.builtin.report.reading import Process, read_reports
from patchcore.builtin.report.report_file import read_report
from patchcore.builtin.shared.finding import Finding
from patchcore.report import SCHEMA_VERSION


def found(reports: Reports) -> list[Finding]:
    return findings(*read_reports(reports.folder))


# --- reading -------------------------------------------------------------------------------------------------------


def test_processes_are_in_the_order_of_ranks_with_those_that_lead_first(reports: Reports) -> None:
    everybody = [(1, "worker"), (10, "rank"), (0, "worker"), (1, "rank"), (2, "rank"), (0, "main"), (0, "rank")]
    for rank, role in everybody:
        reports.write(patcher(PRICE), rank, role=role)
    processes, _ = read_reports(reports.folder)
    assert [(p.rank, p.content["role"]) for p in processes] == [
        (0, "rank"),
        (0, "main"),
        (0, "worker"),
        (1, "rank"),
        (1, "worker"),
        (2, "rank"),
        (10, "rank"),
    ]
    assert [p.leads for p in processes] == [True, True, False, True, False, True, True]
    assert str(processes[2]) == "rank 0, worker 103 on box"
    assert {p.run for p in processes} == {"r1"}


def test_other_files_of_the_directory_are_left_alone(reports: Reports) -> None:
    reports.write(patcher(PRICE))
    for name in ("notes.json", "report-0-7-abcdef.part", "report.txt", "old-report-1.json"):
        (reports.folder / name).write_text("no JSON")
    processes, unreadable = read_reports(reports.folder)
    assert (len(processes), unreadable) == (1, [])


def test_a_report_that_cannot_be_read_is_left_out_and_named(reports: Reports) -> None:
    """What there is besides, ``tests/hostile/test_reports.py`` tries."""
    reports.write(patcher(PRICE))
    path = reports.write(patcher(PRICE), 1)
    content = json.loads(path.read_text())
    del content["environment"]["pid"]
    path.write_text(json.dumps(content))
    processes, unreadable = read_reports(reports.folder)
    assert [process.rank for process in processes] == [0]
    fault = f"is not what patchcore {__version__} writes: Object missing required field `pid` - at `$.environment`"
    assert unreadable == [Finding("unreadable", path.name, f"{fault}; the report is left out")]
    assert findings(processes, unreadable) == unreadable


def test_a_report_of_another_version_says_which_is_expected(reports: Reports) -> None:
    reports.write(patcher(PRICE))
    reports.write(patcher(PRICE), 1, schema_version=SCHEMA_VERSION + 1)
    (finding,) = found(reports)
    expected = f"has schema_version {SCHEMA_VERSION + 1}, this patchcore reads {SCHEMA_VERSION}; the report is left out"
    assert finding.message == expected


# --- differences ---------------------------------------------------------------------------------------------------


def test_processes_that_patch_the_same_have_no_findings(reports: Reports) -> None:
    for rank in range(3):
        reports.write(patcher(PRICE, LABEL), rank, role="rank")
        reports.write(patcher(PRICE, LABEL), rank, role="worker")
    assert found(reports) == []


def test_a_patch_that_is_missing_on_one_rank(reports: Reports) -> None:
    reports.write(patcher(PRICE, LABEL))
    reports.write(patcher(PRICE), 1, role="rank")
    assert found(reports) == [
        Finding(
            "difference",
            "patch shop.label",
            "no plugin contributes it; on rank 0, main 101 on box: apply",
            "rank 1, rank 102 on box",
        )
    ]


def test_everybody_is_held_to_rank_0_not_to_who_started_it(reports: Reports) -> None:
    reports.write(patcher(PRICE, LABEL))
    for rank in (0, 1):
        reports.write(patcher(PRICE), rank, role="rank")
    (difference,) = found(reports)
    assert difference.processes == "rank 0, main 101 on box"
    assert difference.message == "apply; on rank 0, rank 102 on box: no plugin contributes it"


def test_a_failure_of_everybody_is_said_once(reports: Reports) -> None:
    importlib.import_module("shop")
    broken = patcher(PRICE.evolve(changes=[pc.Replace("shop:prize", new)]))
    for rank in range(4):
        reports.write(broken, rank, role="rank")
    (failure,) = found(reports)
    assert (failure.kind, failure.processes) == ("failed", "all processes")
    assert "did you mean 'price'?" in failure.message


def test_the_problem_of_a_plugin(reports: Reports) -> None:
    broken = patcher(PRICE)
    broken.plugins.note(broken.collect()[0].provenance, "after_apply", ValueError("no cash"))
    reports.write(patcher(PRICE))
    reports.write(broken, 1, role="rank")
    assert found(reports) == [
        Finding("plugin", "plugin shop", "after_apply: ValueError: no cash", "rank 1, rank 102 on box")
    ]


def test_processes_with_the_same_difference_are_named_together(reports: Reports) -> None:
    for role in ("main", "worker"):
        reports.write(patcher(PRICE), role=role)
    for rank in (1, 2):
        for role in ("rank", "worker", "worker"):
            reports.write(patcher(PRICE, LABEL), rank, role=role)
    reports.write(patcher(LABEL), 3, role="rank")
    both, *third = found(reports)
    assert both.processes == "rank 1, rank 103 on box and 2 more; rank 2, rank 106 on box and 2 more"
    assert {d.processes for d in third} == {"rank 3, rank 109 on box"}
    assert {d.subject for d in third} == {"patch shop.price", "patch shop.label"}


# --- the end -------------------------------------------------------------------------------------------------------


def test_a_process_that_leads_and_has_not_ended(reports: Reports) -> None:
    reports.write(patcher(PRICE))
    reports.write(patcher(PRICE), 1, role="rank", finished=False, written=0.0)
    (finding,) = found(reports)
    assert (finding.kind, finding.processes) == ("unfinished", "rank 1, rank 102 on box")
    assert finding.message.startswith("did not finish: it was killed or is still running; its last report is of ")
    assert finding.message.endswith(("1970", "1969"))


def test_a_process_that_an_exception_has_ended(reports: Reports) -> None:
    reports.write(patcher(PRICE))
    for rank in (1, 2):
        reports.write(patcher(PRICE), rank, role="rank", error="ValueError: no data")
    (finding,) = found(reports)
    who = "rank 1, rank 102 on box; rank 2, rank 103 on box"
    assert finding == ("error", "", "ended with ValueError: no data", who)


def test_workers_are_killed_when_they_are_not_needed_any_more(reports: Reports) -> None:
    reports.write(patcher(PRICE))
    reports.write(patcher(PRICE), role="worker", finished=False)
    assert found(reports) == []


# --- many processes ------------------------------------------------------------------------------------------------


def test_equal_lines_of_reports_are_parsed_once(reports: Reports) -> None:
    for rank in range(3):
        reports.write(patcher(PRICE), rank, role="rank")
    for path in reports.files():  # as a process writes it, a key on each line
        content = json.loads(path.read_text())
        lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in content.items())
        path.write_text(f"{{\n{lines}\n}}\n")
    processes, _ = read_reports(reports.folder)
    for key in ("patches", "manifest", "layers", "settings"):
        assert len({id(process.content[key]) for process in processes}) == 1
    assert [process.rank for process in processes] == [0, 1, 2]
    whole = [read_report(path) for path in reports.files()]
    for path, content in zip(reports.files(), whole):  # and as anybody else may write it
        path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
        assert read_report(path) == content


def test_a_fault_in_one_of_equal_lines_has_its_place(reports: Reports) -> None:
    for rank in range(2):
        path = reports.write(patcher(PRICE), rank, role="rank")
        content = json.loads(path.read_text())
        content["patches"][0]["status"] = "gone"
        lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in content.items())
        path.write_text(f"{{\n{lines}\n}}\n")
    reports.write(patcher(PRICE), 2, role="rank")
    _, unreadable = read_reports(reports.folder)
    assert len(unreadable) == 2
    assert all("at `$.patches[0].status`" in finding.message for finding in unreadable)


def test_many_killed_processes_are_one_finding(reports: Reports) -> None:
    content = read_report(reports.write(patcher(PRICE), 0, role="rank", finished=False))
    ranks = [
        Process({**content, "environment": {**content["environment"], "rank": rank, "ranks": 1000, "pid": rank + 1}})
        for rank in range(1000)
    ]
    (finding,) = findings(ranks)
    assert (finding.kind, finding.processes) == ("unfinished", "ranks 0\N{EN DASH}999 on 1 host")


def test_a_difference_of_many_ranks_counts_them(reports: Reports) -> None:
    content, other = (read_report(reports.write(patcher(*p), 0, role="rank")) for p in ([PRICE], [PRICE, LABEL]))
    ranks = [
        Process({**view, "environment": {**view["environment"], "rank": rank, "ranks": 40, "pid": rank + 1}})
        for rank, view in enumerate([content] * 10 + [other] * 30)
    ]
    (finding,) = findings(ranks)
    assert (finding.kind, finding.processes) == ("difference", "ranks 10\N{EN DASH}39 on 1 host")
