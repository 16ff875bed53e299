"""jobs.py: pods with one host name, restarts, groups of ranks, nodes with other clocks and run ids."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from reports import LABEL, PRICE, Reports, patcher

from patchcore.builtin.report.jobs import correct_clocks, linked_runs, with_groups, without_replaced
from patchcore.builtin.report.merge import findings
from patchcore.builtin.report.reading import read_reports
from patchcore.builtin.shared.finding import Finding
from patchcore.cli import main


def rank(reports: Reports, number: int, *, ranks: int = 2, pid: int = 0, **named: Any) -> Path:
    """Write the report of a rank; ``job`` has facts that are not defaults."""
    path = reports.write(patcher(*named.pop("patches", [PRICE])), number, role=named.pop("role", "rank"), **named)
    content = json.loads(path.read_text())
    content["environment"]["ranks"] = ranks
    if pid:
        content["environment"]["pid"] = pid
    path.write_text(json.dumps(content))
    return path


def found(reports: Reports) -> list[Finding]:
    processes, unreadable = read_reports(reports.folder)
    return findings(with_groups(processes), unreadable)


class TestPods:
    """Two pods with one host name, in each of which processes have the same ids."""

    def test_no_process_is_lost(self, reports: Reports) -> None:
        for pod in ("a", "b"):
            for local_rank in (0, 1):
                number = local_rank if pod == "a" else local_rank + 2
                facts = {"identity": f"{pod}{local_rank}", "machine": pod, "finished": False}
                rank(reports, number, ranks=4, pid=7 + local_rank, **facts)
        processes, _ = read_reports(reports.folder)
        assert [process.rank for process in processes] == [0, 1, 2, 3]
        assert [finding.kind for finding in found(reports)] == ["unfinished"] * 4

    def test_a_process_that_has_become_another_program_is_one(self, reports: Reports) -> None:
        for finished in (False, True):
            rank(reports, 0, ranks=1, pid=7, identity="a", machine="a", finished=finished)
        processes, _ = read_reports(reports.folder)
        assert [process.content["finished"] for process in processes] == [True]


class TestRestarts:
    def test_what_a_later_generation_has_replaced_is_no_finding(self, reports: Reports) -> None:
        for generation, finished in ((1, False), (2, True)):
            for number in (0, 1):
                job = {"group": "g", "generation": generation, "local_rank": number}
                path = rank(reports, number, finished=finished, job=job)
                began(path, 1000.0 * generation)
        assert found(reports) == []

    @pytest.mark.parametrize("finished", [True, False])
    def test_ranks_that_died_before_they_met_are_replaced_by_those_of_the_same_launcher(
        self, reports: Reports, finished: bool
    ) -> None:
        """Neither restart count nor rank tells: another node counts on its own, and ranks change places."""
        for began_at, number in ((1000.0, 1), (2000.0, 0)):
            path = rank(reports, number, ranks=1, finished=began_at == 2000 and finished, job={"local_rank": 0})
            began(path, began_at)
            worker = rank(
                reports,
                number,
                ranks=1,
                role="worker",
                finished=False,
                patches=[PRICE, LABEL][: 1 if began_at == 2000 else 2],
            )
            content = json.loads(worker.read_text())
            content["environment"]["parent"] = json.loads(path.read_text())["environment"]["pid"]
            worker.write_text(json.dumps(content))
        assert [(f.kind, f.processes[:6]) for f in found(reports)] == ([] if finished else [("unfinished", "rank 0")])
        assert len(without_replaced(read_reports(reports.folder).processes)) == 2

    def test_the_ranks_of_a_node_that_left_are_replaced(self, reports: Reports) -> None:
        for machine, generation, finished in (("a", 1, False), ("b", 2, True)):
            job = {"group": "g", "generation": generation, "local_rank": 0}
            rank(reports, 1, finished=finished, machine=machine, job=job)
        rank(reports, 0, job={"group": "g", "generation": 2, "local_rank": 0})
        assert found(reports) == []

    def test_the_last_generation_may_fail(self, reports: Reports) -> None:
        for generation in (1, 2):
            rank(reports, 0, ranks=1, finished=False, job={"group": "g", "generation": generation})
        assert [finding.kind for finding in found(reports)] == ["unfinished"]

    def test_they_are_shown(self, reports: Reports, capsys: pytest.CaptureFixture[str]) -> None:
        for generation, finished in ((1, False), (2, True)):
            rank(reports, 0, ranks=1, finished=finished, job={"group": "g", "generation": generation})
        assert main(["report", str(reports.folder)]) == 0
        assert sorted(line.split()[4] for line in capsys.readouterr().out.splitlines()[2:4]) == ["finished", "replaced"]


def began(path: Path, at: float) -> None:
    content = json.loads(path.read_text())
    content["timeline"]["started"] = at
    path.write_text(json.dumps(content))


class TestGroups:
    """Groups of workers that each count their ranks from 0, as verl's are."""

    def test_a_rank_that_one_group_lacks_is_not_hidden_by_another(self, reports: Reports) -> None:
        for name, ranks in (("actor", [0, 1]), ("critic", [0])):
            for number in ranks:
                rank(reports, number, job={"meeting": f"10.0.0.1:{len(name)}", "name": name})
        (finding,) = found(reports)
        assert (finding.kind, finding.processes) == ("missing", "rank 1 of critic")

    def test_processes_are_named_with_their_group(self, reports: Reports) -> None:
        for port in (1, 2):
            for number in (0, 1):
                patches = [PRICE, LABEL][: 1 + (port == 2 and number == 1)]
                rank(reports, number, patches=patches, job={"meeting": f"10.0.0.1:{port}"})
        assert [f.processes for f in found(reports)] == ["rank 1 of 10.0.0.1:2, rank 104 on box"]

    def test_ranks_that_have_met_are_one_group_whatever_they_call_the_place(self, reports: Reports) -> None:
        rank(reports, 0, machine="a", job={"meeting": "localhost:1", "group": "g", "generation": 1})
        rank(reports, 1, machine="b", job={"meeting": "10.0.0.1:1", "group": "g", "generation": 1})
        assert found(reports) == []
        assert {process.group for process in with_groups(read_reports(reports.folder).processes)} == {""}

    @pytest.mark.parametrize(
        ("ports", "missing"), [((1, 1), []), ((1, 2), ["rank 1 of localhost:1", "rank 0 of 10.0.0.1:2"])]
    )
    def test_a_master_that_calls_itself_localhost(self, reports: Reports, ports: Any, missing: list[str]) -> None:
        """A PyTorchJob does; nothing else tells which ranks belong together where they have not met."""
        rank(reports, 0, machine="a", job={"meeting": f"localhost:{ports[0]}"})
        rank(reports, 1, machine="b", job={"meeting": f"10.0.0.1:{ports[1]}"})
        assert sorted(f.processes for f in found(reports)) == sorted(missing)


class TestRunsOfNodes:
    def test_runs_whose_ranks_have_met_are_one(self, reports: Reports, capsys: pytest.CaptureFixture[str]) -> None:
        for number, run in enumerate(("node0", "node1")):
            rank(reports, number, run=run, job={"group": "g", "generation": 1})
        reports.write(patcher(PRICE), run="earlier", written=1.0)
        processes = read_reports(reports.folder).processes
        assert linked_runs(processes)["node0"] == {"node0", "node1"}
        assert main(["report", str(reports.folder)]) == 0
        out, err = capsys.readouterr()
        assert out.startswith("Run node0, node1\n")
        assert err == "patchcore: reports of earlier runs are left out: earlier (--run ID, --all)\n"
        assert main(["report", str(reports.folder), "--run", "node1"]) == 0
        assert capsys.readouterr().out == out


class TestClocks:
    DAY = 86400.0

    def test_a_host_that_is_a_day_ahead_does_not_make_its_run_the_latest(
        self, reports: Reports, capsys: pytest.CaptureFixture[str]
    ) -> None:
        old = reports.write(patcher(PRICE), run="old", machine="ahead")
        new = reports.write(patcher(PRICE), run="new", machine="right")
        for path, hours, ahead in ((old, 2, self.DAY), (new, 0, 0.0)):
            content = json.loads(path.read_text())
            at = content["written"] - hours * 3600
            content["written"] = at + ahead
            path.write_text(json.dumps(content))
            os.utime(path, (at, at))
        main(["report", str(reports.folder)])
        assert capsys.readouterr().out.startswith("Run new\n")

    def test_ranks_that_have_compared_their_clocks_are_on_one_timeline(self, reports: Reports) -> None:
        for number, clock in ((0, 0.0), (1, 3600.0)):
            path = rank(reports, number, machine=str(number), job={"group": "g", "generation": 1, "clock": clock})
            began(path, 5000.0 + clock)
            content = json.loads(path.read_text())
            path.write_text(json.dumps({**content, "written": 6000.0 + clock}))
        processes = read_reports(reports.folder).processes
        correct_clocks(processes)
        assert [p.content["timeline"]["started"] for p in processes] == [5000.0, 5000.0]
        assert [p.content["written"] for p in processes] == [6000.0, 6000.0]

    def test_a_file_that_was_copied_later_says_nothing_of_a_clock(self, reports: Reports) -> None:
        path = reports.write(patcher(PRICE), written=1000.0)
        os.utime(path, (9000, 9000))
        (process,) = read_reports(reports.folder).processes
        correct_clocks([process])
        assert process.content["written"] == 1000.0


class TestSeveralFolders:
    """Reports that a site has collected, each node's in a folder, with or without subfolders."""

    def test_are_one_run(self, reports: Reports, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for number, run in enumerate(("node0", "node1")):
            path = rank(reports, number, run=run, job={"group": "g", "generation": 1})
            target = tmp_path / run / "deep" / path.name
            target.parent.mkdir(parents=True)
            path.rename(target)
        code = main(["report", str(tmp_path / "node0"), str(tmp_path / "node1")])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        assert out.startswith("Run node0, node1\n")

    def test_a_report_that_was_collected_twice_is_one_process(self, reports: Reports, tmp_path: Path) -> None:
        path = rank(reports, 0, ranks=1)
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
        assert len(read_reports(tmp_path / "a", tmp_path / "b").processes) == 1

    def test_subfolders_of_one_folder_are_not_read(self, reports: Reports) -> None:
        """They may be those of other runs."""
        path = rank(reports, 0, ranks=1)
        (reports.folder / "older").mkdir()
        (reports.folder / "older" / path.name).write_bytes(path.read_bytes())
        assert len(read_reports(reports.folder).processes) == 1
