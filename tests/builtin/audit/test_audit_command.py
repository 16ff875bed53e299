"""patchcore audit and run --audit: the audit of every process of a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchcore.builtin.audit import sections

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def program(make_package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")
    folder = make_package(
        {
            "biglib": "def scale(x): return x\ndef clip(x): return x",
            "one": "import biglib\ndef scale(x): return 1\nbiglib.scale = scale",
            "two": "import biglib\ndef scale(x): return 2\nbiglib.scale = scale",
        }
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    path = tmp_path / "train.py"
    path.write_text("import sys, biglib, one\nif 'two' in sys.argv: import two\nprint(biglib.scale(3))\n", "utf-8")
    return path


def patchcore(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "patchcore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_text_has_the_patch_and_the_exit_code_of_the_program(program: Path) -> None:
    done = patchcore("audit", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1\n1 foreign patch of 1 distribution, 0 conflicts\none: 1 patch\n")
    assert "  biglib:scale  biglib.py:1 -> one.py:2\n    written at one.py:3" in done.stdout
    assert "incomplete" not in done.stdout


def test_a_conflict_ends_with_1_and_json_has_it(program: Path) -> None:
    done = patchcore("audit", "--format", "json", "--", program, "two")
    assert done.returncode == 1
    ((view),) = json.loads(done.stdout.partition("\n")[2])["processes"]
    (row,) = view["findings"]
    assert row["conflict"] == "two owners: one and two; one.py:2 is no longer called"
    assert view["incomplete"] == []


def test_a_program_that_fails_keeps_its_exit_code(program: Path) -> None:
    program.write_text("import biglib, one\nraise SystemExit(7)\n", "utf-8")
    done = patchcore("audit", program)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (7, "patchcore: the program ended with exit code 7")
    assert "biglib:scale" in done.stdout


def test_a_program_without_an_audit_is_named_and_ends_with_2(program: Path) -> None:
    program.write_text("import os, biglib, one\nos._exit(0)\n", "utf-8")
    done = patchcore("audit", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert "not audited: rank 0, main " in done.stderr
    assert "it was killed, or left by os._exit or exec, before its audit" in done.stderr
    adopted = patchcore("adopt", "shop-npu", "--", program)
    assert (adopted.returncode, adopted.stderr.splitlines()[-1]) == (2, "patchcore: nothing is written")


def test_a_worker_without_an_audit_is_no_error(program: Path) -> None:
    program.write_text("import os, biglib, one\nif os.fork() == 0:\n    os._exit(0)\nos.wait()\n", "utf-8")
    done = patchcore("audit", program)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_format_stands_anywhere_before_the_program(program: Path) -> None:
    done = patchcore("audit", "--disable", "*", "--format", "json", program, "--format", "text")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.partition("\n")[2])["exit_code"] == 0
    assert patchcore("audit", program, "--format", "json").stdout.startswith("1\n1 foreign patch of")
    assert patchcore("audit", "--help").stdout.startswith("usage: patchcore audit [--format json]")


def test_usage(program: Path) -> None:
    done = patchcore("audit", "--format", "json")
    assert done.returncode == 2
    assert "expected a program to run" in done.stderr


def test_run_audit_adds_a_section_to_the_report_and_its_mark(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    done = patchcore("run", "--audit", "--report-dir", folder, program, "two")
    assert done.returncode == 0
    assert "(1 conflict of foreign patches)" in done.stderr
    shown = patchcore("report", folder).stdout
    assert "biglib:scale: biglib.py:1 -> two.py:2, by two" in " ".join(shown.split())
    (report,) = folder.glob("*.json")
    (section,) = [s for s in json.loads(report.read_text("utf-8"))["sections"] if s["title"] == sections.TITLE]
    assert [row["target"] for row in section["data"]] == ["biglib:scale"]


def test_a_child_of_multiprocessing_is_audited_if_it_is_spawned_and_not_if_it_is_forked(
    program: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "reports"
    program.write_text(
        "import multiprocessing, sys\nimport biglib, one\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context(sys.argv[1])\n"
        "    child = context.Process(target=print, args=(1,))\n"
        "    child.start(); child.join()\n",
        "utf-8",
    )
    for method, count in (("spawn", 2), ("fork", 1)):
        done = patchcore("run", "--audit", "--report-dir", folder / method, program, method)
        assert done.returncode == 0, done.stderr
        reports = [json.loads(path.read_text("utf-8")) for path in (folder / method).glob("*.json")]
        found = [s for report in reports for s in report["sections"] if s["title"] == sections.TITLE]
        assert [[row["target"] for row in s["data"]] for s in found] == [["biglib:scale"]] * count
        assert not any(line.startswith(sections.INCOMPLETE) for s in found for line in s["lines"])
