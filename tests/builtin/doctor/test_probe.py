"""``patchcore doctor --workers``: which child processes are reached, found out by starting them."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
from pathlib import Path
from typing import Any

import pytest
from programs import PATCHES, SHOP, Programs

from patchcore.builtin.doctor import probe

POOLS = [f"multiprocessing, {method}" for method in multiprocessing.get_all_start_methods()]
ISOLATED = ["python -E", "python -I"]
OUT_OF_REACH = ["python -S", "python, empty environment"]


def doctor(programs: Programs, *arguments: str, code: int = 0, **environment: str) -> Any:
    """Run ``patchcore doctor --workers`` with the patch module ``deals``; return what it printed."""
    command = [*programs.python, "-m", "patchcore", "doctor", "--workers", "-p", "deals"]
    return programs.run(command, *arguments, code=code, **environment)


def workers(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    content = json.loads(done.stdout)
    assert content["schema_version"] == 1
    return {worker["kind"]: (worker["result"], worker["detail"]) for worker in content["workers"]}


def test_where_patchcore_is_installed(programs: Programs) -> None:
    programs.write({**SHOP, "deals.py": PATCHES})
    done = doctor(programs, "--format", "json")
    found = workers(done)
    assert list(found) == [*POOLS, "python", *ISOLATED, *OUT_OF_REACH]
    for kind in (*POOLS, "python", *ISOLATED):
        assert found[kind] == ("patched", "1 pending"), kind
    assert found["python -S"] == (
        "out of reach",
        "-S disables site-packages, where patchcore is installed; run without -S",
    )
    assert found["python, empty environment"] == (
        "out of reach",
        "it does not get the environment variables of the run; pass os.environ on, or call patchcore.apply() in it",
    )
    assert done.stderr.splitlines() == [f"patchcore: {kind}: {result}" for kind, (result, _) in found.items()]


def test_where_patchcore_is_on_the_path_only(tmp_path: Path) -> None:
    programs = Programs(tmp_path, door="sitecustomize")
    programs.write({**SHOP, "deals.py": PATCHES})
    found = workers(doctor(programs, "--format", "json"))
    assert {found[kind][0] for kind in (*POOLS, "python")} == {"patched"}
    for kind in ISOLATED:
        flag = kind.rpartition(" ")[2]
        hint = f"{flag} ignores PYTHONPATH, and patchcore is not installed in site-packages; install it there"
        assert found[kind] == ("out of reach", hint)


def test_a_child_that_ends_with_an_error_is_a_finding_with_what_it_said(programs: Programs) -> None:
    source = "import sys\nif sys.flags.ignore_environment:\n    raise OSError('no cash')\n" + PATCHES
    programs.write({**SHOP, "deals.py": source})
    done = doctor(programs, "--format", "json", code=1, PATCHCORE_ON_FAILURE="raise")
    found = workers(done)
    assert {kind for kind, (result, _) in found.items() if result == "not patched"} == set(ISOLATED)
    assert found["python -E"][1].startswith("CalledProcessError: ")
    assert "no cash" in done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert [(finding["kind"], finding["subject"]) for finding in findings] == [("worker", kind) for kind in ISOLATED]


def test_without_being_asked_no_process_is_started(programs: Programs) -> None:
    programs.write({**SHOP, "deals.py": PATCHES})
    command = [*programs.python, "-m", "patchcore", "doctor", "-p", "deals", "--format", "json"]
    done = programs.run(command, PATCHCORE_REPORT_DIR="out")
    assert (workers(done), done.stderr) == ({}, "")
    assert not (programs.folder / "out").exists()


SIGHT = {"summary": "2 applied", "digest": "a"}


@pytest.mark.parametrize(
    ("sight", "here", "hint", "verdict"),
    [
        (SIGHT, SIGHT, "", ("patched", "2 applied")),
        ({**SIGHT, "summary": "2 pending"}, SIGHT, "", ("patched", "2 pending")),
        (None, SIGHT, "", ("not patched", "it did not join the run")),
        (None, SIGHT, "install it", ("out of reach", "install it")),
        (None, None, "", ("not patched", "it did not join the run")),
        (
            {"summary": "1 applied", "digest": "b"},
            SIGHT,
            "install it",
            ("not patched", "1 applied; its parent has: 2 applied"),
        ),
        (SIGHT, None, "", ("patched", "2 applied")),
    ],
)
def test_verdicts(sight: probe.ProbeResult, here: probe.ProbeResult, hint: str, verdict: tuple[str, str]) -> None:
    assert probe._judge(sight, here, hint) == verdict


def test_no_reports_are_left_behind(programs: Programs) -> None:
    programs.write({**SHOP, "deals.py": PATCHES})
    doctor(programs, PATCHCORE_REPORT_DIR="out")
    assert not (programs.folder / "out").exists()
