"""The end of a run shows which tests failed: whoever sees only the end of a log learns what to mend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = """<testsuites><testsuite tests="3" failures="1" errors="1" skipped="0">
<testcase classname="tests.core.test_plan" name="test_sorts"/>
<testcase classname="tests.core.test_plan" name="test_order"><failure message="short">first
E   assert 1 == 2</failure></testcase>
<testcase classname="tests.core.test_plan" name="test_ends"><error message="no fixture"/></testcase>
</testsuite></testsuites>"""


def closing_lines(folder: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "totals.py"), str(folder)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_failed_tests_are_named_with_their_errors_before_the_sum(tmp_path: Path) -> None:
    (tmp_path / "core-3.9.xml").write_text(RESULTS)
    code, lines = closing_lines(tmp_path)
    assert code == 1
    assert lines == [
        "failed: tests.core.test_plan::test_order (core-3.9)",
        "    first",
        "    E   assert 1 == 2",
        "failed: tests.core.test_plan::test_ends (core-3.9)",
        "    no fixture",
        "1 passed, 2 failed, 0 skipped",
    ]


def test_no_results_are_a_failure(tmp_path: Path) -> None:
    assert closing_lines(tmp_path) == (1, ["0 passed, 0 failed, 0 skipped"])
