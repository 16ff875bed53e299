"""process_report.py: what a process of a run leaves behind, however it goes and ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from programs import PATCHES, SHOP, Programs
from reports import PRICE, patcher
from reports import SHOP as LIBRARY

from patchcore.builtin.report.merge import findings
from patchcore.builtin.report.reading import read_reports
from patchcore.builtin.report.report_file import Malformed, read_report
from patchcore.builtin.run import process_report
from patchcore.builtin.run.process_report import ProcessReport
from patchcore.builtin.run.session import Session
from patchcore.cli import main
from patchcore.report import ChangeRecord, PatchRecord
from patchcore.settings import Settings

RUN = ("-p", "deals", "--report-dir", "out")


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.write({**SHOP, "deals.py": PATCHES})
    return programs


def contents(programs: Programs) -> list[dict[str, Any]]:
    """Return the reports in the directory ``out``, which has nothing else in it."""
    found = list((programs.folder / "out").iterdir())
    assert [path.name for path in found if not path.match("report-*.json")] == []
    return [json.loads(path.read_text()) for path in found]


def by_role(programs: Programs) -> dict[str, dict[str, Any]]:
    """Return the reports by the role of the process, of which each has one."""
    found = {content["role"]: content for content in contents(programs)}
    assert len(found) == len(contents(programs))
    return found


def statuses(content: dict[str, Any]) -> dict[str, str]:
    return {patch["name"]: patch["status"] for patch in content["patches"]}


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stderr.splitlines()


# --- when it is written --------------------------------------------------------------------------------------------


LOOK = """
import glob, json, os
def look():
    own = [path for path in glob.glob("out/report-*.json") if f"-{os.getpid()}-" in path]
    for path in own:
        content = json.load(open(path))
        print(content["role"], content["finished"], *(p["status"] for p in content["patches"]), flush=True)
    if not own:
        print("none", flush=True)
"""


def test_at_the_start_after_imports_and_at_the_end(shop: Programs) -> None:
    shop.write(
        {"look.py": LOOK, "script.py": "import time, look\nlook.look()\ntime.sleep(0.6)\nimport sell\nlook.look()\n"}
    )
    done = shop.run(shop.patchcore, *RUN, "script.py")
    assert done.stdout.splitlines() == ["main False pending", "20", "main False applied"]
    (content,) = contents(shop)
    assert (content["finished"], content["summary"]) == (True, "1 applied")
    assert errors(done) == ["patchcore: 1 applied"]


def test_when_things_happened_what_lies_on_targets_and_who_decided(shop: Programs) -> None:
    source = "import os, sell\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"
    shop.write({"script.py": source})
    shop.run(shop.patchcore, *RUN, "script.py")
    found = by_role(shop)
    main = found["main"]
    events = main["timeline"]["events"]
    assert [(event["kind"], event["subject"]) for event in events] == [
        ("awake", ""),
        ("import", "shop.prices"),
        ("applied", "deals.double"),
    ]
    assert all(event["at"] >= 0 for event in events)
    assert main["timeline"]["started"] + events[-1]["at"] <= main["written"]
    (target,) = main["layers"]
    assert (target["target"], target["original"]["line"]) == ("shop.prices:price", 1)
    (layer,) = target["layers"]
    assert (layer["patch"], layer["place"]["name"]) == ("deals.double", "deals:double.function")
    assert layer["place"]["file"].endswith("deals.py")
    assert main["arguments"] == list(RUN)
    assert {"name": "module", "value": "deals", "origin": str(shop.folder)} in main["settings"]
    worker = found["worker"]
    assert worker["layers"] == []
    assert [event["kind"] for event in worker["timeline"]["events"]] == ["forked"]


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("raise ValueError('====\\nno  price\\nmore')", "ValueError: no price"),
        ("raise ValueError", "ValueError"),
        ("sys.excepthook = lambda *_: None; 1 / 0", "ZeroDivisionError: division by zero"),
        ("sys.exit(3)", ""),
        ("pass", ""),
    ],
)
def test_has_the_exception_that_ended_the_program(shop: Programs, end: str, error: str) -> None:
    shop.write({"ends.py": f"import sys\nimport sell\n{end}\n"})
    code = 3 if "exit" in end else bool(error)
    shop.run(shop.patchcore, "-p", "deals", "--report-dir", "out", "ends.py", code=code)
    (path,) = (shop.folder / "out").glob("report-*.json")
    content = read_report(path)
    assert (content["finished"], content["error"]) == (True, error)


def test_a_child_of_fork_has_one_of_its_own_from_its_start(shop: Programs) -> None:
    source = """
import os, look, shop.prices
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
    look.look()
else:
    look.look()
    os._exit(0)
"""
    shop.write({"look.py": LOOK, "script.py": source})
    lines = shop.run(shop.patchcore, *RUN, "script.py").stdout.splitlines()
    assert lines[0] == "worker False applied"
    assert lines[1].startswith("main False ")
    found = by_role(shop)
    assert found["worker"]["environment"]["parent"] == found["main"]["environment"]["pid"]
    assert found["worker"]["digest"] == found["main"]["digest"]
    assert found["main"]["finished"]
    assert not found["worker"]["finished"]  # os._exit leaves no time
    assert main(["report", str(shop.folder / "out")]) == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_end_theirs(shop: Programs, method: str) -> None:
    source = f"""
import multiprocessing
def work():
    import sell
if __name__ == "__main__":
    import shop
    context = multiprocessing.get_context({method!r})
    process = context.Process(target=work, name="packer")
    process.start()
    process.join()
"""
    shop.write({"script.py": source})
    done = shop.run(shop.patchcore, *RUN, "script.py")
    assert done.stdout == "20\n"
    found = {content["environment"]["name"]: content for content in contents(shop)}
    assert (found["packer"]["role"], found["packer"]["finished"]) == ("worker", True)
    assert statuses(found["packer"]) == {"deals.double": "applied"}
    assert (found["MainProcess"]["role"], found["MainProcess"]["finished"]) == ("main", True)
    assert errors(done) == ["patchcore: 1 pending"]


def test_a_process_that_is_killed_leaves_the_last_one(shop: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    source = "import os, time, shop.prices\ntime.sleep(0.6)\nimport shop.tills\nos.kill(os.getpid(), 9)\n"
    patches = PATCHES.replace(
        "return [double]", 'return [double, pc.Patch("deals.till", [pc.Replace("shop.tills:f", id)])]'
    )
    shop.write({"script.py": source, "shop/tills.py": "def f(x): pass\n", "deals.py": patches})
    done = shop.run(shop.patchcore, *RUN, "script.py", code=-signal.SIGKILL)
    assert (done.stdout, done.stderr) == ("", "")
    (content,) = contents(shop)
    assert not content["finished"]
    assert statuses(content) == {"deals.double": "applied", "deals.till": "applied"}
    assert main(["report", str(shop.folder / "out")]) == 1
    printed = capsys.readouterr().out
    assert f"unfinished  rank 0, main {content['environment']['pid']} on " in printed
    assert "did not finish: it was killed or is still running" in printed


def test_what_is_applied_early_is_in_the_report_of_a_process_that_is_killed(shop: Programs) -> None:
    source = """
import os, pathlib, signal, time, sell
end = time.monotonic() + 60
while time.monotonic() < end and not any("applied" in path.read_text() for path in pathlib.Path("out").glob("*.json")):
    time.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""
    shop.write({"script.py": source})
    shop.run(shop.patchcore, *RUN, "script.py", code=-signal.SIGKILL)
    (content,) = contents(shop)
    assert statuses(content) == {"deals.double": "applied"}


def test_a_program_that_becomes_another_by_exec(shop: Programs) -> None:
    source = (
        "import os, sys, sell\nif len(sys.argv) == 1:\n    os.execv(sys.executable, [sys.executable, *sys.argv, '2'])\n"
    )
    shop.write({"script.py": source})
    done = shop.run(shop.patchcore, *RUN, "script.py")
    assert errors(done) == ["patchcore: 1 applied"]
    assert main(["report", str(shop.folder / "out")]) == 0


def test_a_child_that_runs_something_before_exec(shop: Programs) -> None:
    start = "subprocess.run([sys.executable, 'sell.py'], preexec_fn=os.getpid, check=True)"
    shop.write({"script.py": f"import os, subprocess, sys, shop\n{start}\n"})
    shop.run(shop.patchcore, *RUN, "script.py")
    found, _ = read_reports(shop.folder / "out")
    assert len({process.identity for process in found}) == len(found) == 2
    assert all(process.content["finished"] for process in found)


LATE = {
    "atexit": "import atexit\ndef work():\n    import sell\natexit.register(work)\n",
    "thread": "import threading, time\ndef work():\n    time.sleep(0.1)\n    import sell\n"
    "threading.Thread(target=work).start()\n",
}


@pytest.mark.parametrize(
    "late",
    [
        "atexit",
        "thread",
    ],
)
@pytest.mark.parametrize("options", [(), ("--strict",)], ids=" ".join)
def test_a_process_that_imports_nothing_of_interest_before_its_end(
    shop: Programs, late: str, options: Sequence[str]
) -> None:
    start = "subprocess.run([sys.executable, 'late.py'], check=True)"
    shop.write({"script.py": f"import subprocess, sys, shop\n{start}\n", "late.py": LATE[late]})
    done = shop.run(shop.patchcore, *RUN, *options, "script.py")
    assert done.stdout == "20\n"
    assert errors(done) == ["patchcore: 1 pending"]
    assert by_role(shop)["worker"]["patches"]


def test_a_program_goes_on_until_its_last_thread_ends(shop: Programs) -> None:
    source = "import os, threading, time, shop\ndef work():\n    time.sleep(0.3)\n    os.kill(os.getpid(), 9)\n"
    shop.write({"script.py": f"{source}threading.Thread(target=work).start()\n"})
    shop.run(shop.patchcore, *RUN, "script.py", code=-signal.SIGKILL)
    (content,) = contents(shop)
    assert not content["finished"]


def test_one_file_per_process_with_rank_and_process_id_in_its_name(shop: Programs) -> None:
    shop.run(shop.patchcore, *RUN, "sell.py", RANK="7")
    (path,) = (shop.folder / "out").iterdir()
    (content,) = contents(shop)
    assert path.name.startswith(f"report-7-{content['environment']['pid']}-")
    assert content["role"] == "rank"


def test_without_a_directory_there_are_no_files(shop: Programs) -> None:
    before = set(shop.folder.iterdir())
    shop.run(shop.patchcore, "-p", "deals", "sell.py")
    assert set(shop.folder.iterdir()) == before


# --- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_inside_a_run_is_another_one(shop: Programs) -> None:
    patchcore = [*shop.patchcore, *RUN, "sell.py"]
    shop.write({"script.py": f"import subprocess, sell\nsubprocess.run({patchcore!r}, check=True)\n"})
    done = shop.run(shop.patchcore, *RUN, "script.py")
    assert done.stdout == "20\n20\n"
    runs: dict[str, list[tuple[str, str]]] = {}
    for content in contents(shop):
        facts = (content["role"], content["environment"]["program"].rpartition(" ")[2])
        runs.setdefault(content["run"], []).append(facts)
    outer, inner = sorted(runs.values(), key=len, reverse=True)
    assert sorted(outer) == [("main", "script.py"), ("worker", "sell.py")]  # the latter is patchcore run itself
    assert inner == [("main", "sell.py")]


# --- what cannot be written ----------------------------------------------------------------------------------------


FAMILY = """
import multiprocessing, subprocess, sys
import sell
def work(): pass
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=work)
        process.start()
        process.join()
    subprocess.run([sys.executable, "sell.py"], check=True)
    sys.exit(5)
"""


#: What a program does that puts a file in the place of a folder.
IN_THE_WAY = "import shutil\nshutil.rmtree('file', ignore_errors=True)\nopen('file', 'w').close()\n"


def test_a_file_in_the_way_is_said_once_and_by_the_leader_only(shop: Programs) -> None:
    shop.write({"script.py": IN_THE_WAY + FAMILY})
    done = shop.run(shop.patchcore, "-p", "deals", "--report-dir", "file/reports", "script.py", code=5)
    assert done.stdout.splitlines() == ["20"] * 3  # spawn imports the script again, fork does not
    first, last = errors(done)
    path = shop.folder / "file" / "reports" / "report-0-"
    assert first.startswith(f"patchcore: the report could not be written to {path}")
    assert first.endswith(": Not a directory")
    assert last == "patchcore: 1 applied"
    assert (shop.folder / "file").read_text() == ""


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_full_disk(shop: Programs) -> None:
    """Not even what fits is left behind."""
    shop.write({"script.py": FAMILY})
    limited = [sys.executable, "-c", LIMITED, *shop.patchcore]
    done = shop.run(limited, *RUN, "script.py", code=5)
    assert done.stdout.splitlines() == ["20"] * 3
    first, last = errors(done)
    assert first.startswith("patchcore: the report could not be written to ")
    assert first.endswith(": File too large")
    assert last == "patchcore: 1 applied"
    assert contents(shop) == []


def test_a_disk_that_is_full_for_a_while(shop: Programs) -> None:
    source = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
import time, sell
time.sleep(0.6)
import shop.tills
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
    patches = PATCHES.replace(
        "return [double]", 'return [double, pc.Patch("deals.till", [pc.Replace("shop.tills:f", id)])]'
    )
    shop.write({"script.py": source, "shop/tills.py": "def f(x): pass\n", "deals.py": patches})
    done = shop.run(shop.patchcore, *RUN, "script.py")
    assert [line.partition(" to ")[0] for line in errors(done)] == [
        "patchcore: the report could not be written",
        "patchcore: 2 applied",
    ]
    (content,) = contents(shop)
    assert (content["finished"], content["summary"]) == (True, "2 applied")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("directory", [(), ("--report-dir", "file/out")], ids=" ".join)
def test_the_log_of_the_program_is_on_the_disk_that_is_full(shop: Programs, directory: Sequence[str]) -> None:
    shop.write({"script.py": f"{IN_THE_WAY}import sys, sell\nsys.exit(6)\n"})
    command = [*shop.patchcore, "-p", "deals", *directory, "script.py"]
    done = shop.run(["bash", "-c", 'exec "$@" 2>/dev/full', "-", *command], code=6)
    assert done.stdout == "20\n"


@pytest.mark.parametrize("directory", [(), ("--report-dir", "out")], ids=" ".join)
def test_stderr_is_closed(shop: Programs, directory: Sequence[str]) -> None:
    shop.write({"file": "", "script.py": "import sys, sell\nsys.exit(6)\n"})
    command = [*shop.patchcore, "-p", "deals", *directory, "script.py"]
    done = shop.run(["bash", "-c", 'exec "$@" 2>&-', "-", *command], code=6)
    assert done.stdout == "20\n"


def test_a_message_about_the_report_does_not_go_to_stdout(shop: Programs) -> None:
    """When stderr is None, which print() takes for stdout."""
    shop.write({"file": ""})
    source = "import sys\nsys.stderr = None\nimport patchcore_startup\npatchcore_startup.activate()\nimport sell\n"
    run = shop.in_run("deals", report_dir=str(shop.folder / "file" / "out"))
    assert shop.child(source, run=run).stdout == "20\n"


def test_a_directory_that_is_removed_is_made_again(shop: Programs) -> None:
    shop.write({"script.py": "import shutil, sell\nshutil.rmtree('out')\n"})
    done = shop.run(shop.patchcore, *RUN, "script.py")
    (content,) = contents(shop)
    assert content["finished"]
    assert errors(done) == ["patchcore: 1 applied"]


def test_a_process_whose_working_directory_was_deleted(shop: Programs) -> None:
    source = "import os, sell\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n"
    shop.write({"script.py": source})
    done = shop.run(shop.patchcore, *RUN, "script.py")
    (content,) = contents(shop)
    assert (content["finished"], content["environment"]["directory"]) == (True, "")
    assert errors(done) == ["patchcore: 1 applied"]


@pytest.mark.parametrize("argv", ["['train.py', 3]", "None"])
def test_a_program_that_makes_free_with_argv(shop: Programs, argv: str) -> None:
    shop.write({"script.py": f"import sys, sell\nsys.argv = {argv}\n"})
    done = shop.run(shop.patchcore, *RUN, "script.py")
    (content,) = contents(shop)
    assert content["finished"]
    assert errors(done) == ["patchcore: 1 applied"]


# --- one file, many writers and readers ----------------------------------------------------------------------------


@pytest.fixture
def report(tmp_path: Path, make_package: Any) -> Iterator[ProcessReport]:
    make_package(LIBRARY)
    settings = Settings(values={"report_dir": str(tmp_path / "reports")})
    with patcher(PRICE) as applied:
        applied.settings = settings
        yield ProcessReport(Session("r1", 1, settings), applied, "main")


def test_what_is_read_while_it_is_written_is_whole(report: ProcessReport, tmp_path: Path) -> None:
    report.write()
    (path,) = (tmp_path / "reports").iterdir()
    enough = threading.Event()
    failures = []

    def write() -> None:
        try:
            while not enough.is_set():
                report.write()
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(100):
            assert json.loads(path.read_text())["summary"] == "1 pending"
    finally:
        enough.set()
    for writer in writers:
        writer.join()
    assert failures == []
    assert list(path.parent.iterdir()) == [path]


LATER = PatchRecord(
    "shop.price", "applied", "", "shop", None, None, (ChangeRecord("replace", "shop:price", "applied"),)
)


def test_news_of_few_patches_are_in_the_report_at_once(report: ProcessReport, tmp_path: Path) -> None:
    report.news(LATER)
    (path,) = (tmp_path / "reports").iterdir()
    assert json.loads(path.read_text())["summary"] == "1 pending"  # what the Patcher says


@pytest.fixture
def many(report: ProcessReport, monkeypatch: pytest.MonkeyPatch) -> ProcessReport:
    """A report that has been written, of so many patches that news have a file of their own."""
    monkeypatch.setattr(process_report, "_AT_ONCE", 0)
    report.write()
    return report


class TestNewsOfManyPatches:
    def test_are_added_to_the_report_of_a_process_that_was_killed(self, many: ProcessReport, tmp_path: Path) -> None:
        many.news(LATER._replace(status="failed", reason="for now"))
        many.news(LATER)
        path, news = sorted((tmp_path / "reports").iterdir())
        assert json.loads(path.read_text())["summary"] == "1 pending"
        content = read_report(path)
        assert (content["summary"], content["finished"]) == ("1 applied", False)
        assert json.dumps(content["patches"]) == json.dumps([LATER.to_dict()])
        told = [(event["kind"], event["detail"]) for event in content["timeline"]["events"][-2:]]
        assert told == [("failed", "for now"), ("applied", "")]
        assert news.name.startswith(path.stem)

    def test_are_removed_when_the_report_has_them(self, many: ProcessReport, tmp_path: Path) -> None:
        many.news(LATER)
        many.write(finished=True)
        (path,) = (tmp_path / "reports").iterdir()
        assert read_report(path)["summary"] == "1 pending"

    def test_of_a_process_that_has_ended_are_not_added(self, many: ProcessReport, tmp_path: Path) -> None:
        """It was killed after it had written its last report, and before it had removed its news."""
        many.news(LATER)
        path, news = sorted((tmp_path / "reports").iterdir())
        kept = news.read_text()
        many.write(finished=True)
        news.write_text(kept)
        assert read_report(path)["summary"] == "1 pending"

    def test_may_end_in_the_middle_of_a_line(self, many: ProcessReport, tmp_path: Path) -> None:
        many.news(LATER)
        _, news = sorted((tmp_path / "reports").iterdir())
        kept = news.read_text()
        for end in range(len(kept)):
            news.write_text(kept[:end])
            assert read_report(news.with_suffix(".json"))["summary"] == "1 pending"
            news.write_text(kept[:end] + kept)  # a disk that was full for a while
            assert read_report(news.with_suffix(".json"))["summary"] == "1 applied"

    @pytest.mark.parametrize("line", ['{"written": "now"}', "[]", '{"written": 1e11, "patch": {"name": 1}}'])
    def test_that_are_something_else_are_refused(self, many: ProcessReport, tmp_path: Path, line: str) -> None:
        (path,) = (tmp_path / "reports").iterdir()
        path.with_suffix(".news").write_text(line)
        with pytest.raises(Malformed):
            read_report(path)

    def test_are_kept_when_the_directory_is_removed(self, many: ProcessReport, tmp_path: Path) -> None:
        many.news(LATER)
        shutil.rmtree(tmp_path / "reports")
        many.news(LATER)
        (path,) = (tmp_path / "reports").iterdir()
        assert read_report(path)["finished"] is False


def test_a_child_forked_while_another_thread_applies_patches(run_python: Any, make_package: Any) -> None:
    make_package(LIBRARY)
    run_python("""
        import os, signal, threading
        import patchcore as pc
        from patchcore.engine.engine import ENGINE
        pc.Patcher([pc.Patch("p", [pc.Replace("shop:price", lambda: "new")])]).apply()
        held, done = threading.Event(), threading.Event()
        def hold():
            with ENGINE.journal.lock:
                held.set()
                done.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        pid = os.fork()
        if not pid:
            signal.alarm(1)
            import shop
            os._exit(shop.price() != "new")
        code = os.waitpid(pid, 0)[1]
        done.set()
        thread.join()
        assert code == 0, code
    """)


@pytest.mark.parametrize("directory", [("--report-dir", "out"), ()], ids=" ".join)
def test_a_child_of_fork_that_ends_as_programs_do_says_nothing(shop: Programs, directory: Sequence[str]) -> None:
    shop.write({"script.py": "import os, sell\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"})
    done = shop.run(shop.patchcore, "-p", "deals", *directory, "script.py")
    assert errors(done) == ["patchcore: 1 applied"]


def test_has_what_the_report_of_the_patcher_has(report: ProcessReport, tmp_path: Path) -> None:
    report.write()
    (path,) = (tmp_path / "reports").iterdir()
    content = json.loads(path.read_text())
    expected = json.loads(report._patcher.report().to_json())
    assert {key: content[key] for key in expected} == expected


def test_patchers_that_the_program_makes_are_in_the_report(shop: Programs) -> None:
    source = """
        import patchcore as pc
        def make():
            return pc.Patcher([pc.Patch("mine", pc.Wrap("json:dumps", lambda original, *a, **k: original(*a, **k)))])
        kept = make()
        kept.apply()
        failing = pc.Patcher([pc.Patch("bad", pc.Replace("json:nothing", len))])
        failing.apply()
        never = make()
        def lose():
            pc.Patcher([pc.Patch("gone", pc.Replace("json:nothing", len))]).apply()
        lose()
        __import__("gc").collect()
        """
    shop.write({"train.py": textwrap.dedent(source).lstrip()})
    done = shop.run(shop.patchcore, "-v", *RUN, "train.py")
    sections = {section["title"]: section for section in contents(shop)[0]["sections"]}
    told = [(Path(d["made"]).name, d["patch"], d["status"]) for d in sections["Other Patchers"]["data"]]
    assert told == [
        ("train.py:10", "gone", "failed"),  # nothing refers to its Patcher
        ("train.py:3", "mine", "applied"),
        ("train.py:6", "bad", "failed"),
    ]
    assert any("mine applied" in line for line in sections["Other Patchers"]["lines"])
    assert contents(shop)[0]["summary"] == "1 pending; other Patchers: 1 applied, 2 failed"
    lines = errors(done)
    last = lines.index("patchcore: failed: gone, bad; 1 pending; other Patchers: 1 applied, 2 failed")
    assert [line.partition(" [")[0] for line in lines[last + 2 :]] == [
        "  failed   gone",
        "  applied  mine",
        "  failed   bad",
    ]
    found = findings(read_reports(shop.folder / "out").processes)
    assert [(finding.kind, finding.subject) for finding in found] == [("failed", "patch gone"), ("failed", "patch bad")]
    assert found[0].message.startswith("json has no nothing")
    assert found[0].message.endswith("train.py:10)")


def test_patches_of_the_run_that_the_program_applies_too_are_in_the_report_once(programs: Programs) -> None:
    unwanted = '"unwanted", pc.Replace("json:loads", len), default=False'
    made = f"pc.Patcher([*deals.register_patches(), pc.Patch({unwanted})])"
    programs.write(
        {**SHOP, "deals.py": PATCHES, "train.py": f"import deals, sell\nimport patchcore as pc\n{made}.apply()\n"}
    )
    programs.run(programs.patchcore, "--report-dir", "out", "-p", "deals", "train.py")
    assert "Other Patchers" not in [section["title"] for section in contents(programs)[0]["sections"]]
