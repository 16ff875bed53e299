"""``python -m tools.library_tests``: what it reads from JUnit files, and what its page says of the results."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module of the tool by its name."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"tools.library_tests.{name}")


TESTS = """
import unittest
import pytest
class Case(unittest.TestCase):
    def test_passes(self): pass
    def test_parts(self):
        for number in (0, 1):
            with self.subTest(number): self.assertEqual(number, 0)
@pytest.mark.parametrize("n", [1])
def test_skipped(n): pytest.skip("no GPU")
def test_address(): assert not "<object at 0x7f00 in /tmp/some/where/file.py>"
"""


class TestRunning:
    @pytest.fixture
    def library(self, tool: Any, tmp_path: Path) -> Any:
        (tmp_path / "tests" / "inner").mkdir(parents=True)
        (tmp_path / "tests" / "test_one.py").write_text(TESTS)
        (tmp_path / "tests" / "test_two.py").write_text("import not_there")
        (tmp_path / "tests" / "inner" / "test_ends.py").write_text("import os; os._exit(3)")
        return tool("libraries").LIBRARIES[0]._replace(root=".", folders=("tests",), environment={})

    def test_modules_run_by_folder(self, tool: Any, library: Any, tmp_path: Path) -> None:
        modules = tool("running").modules_of(library, tmp_path)
        assert tool("running").folders_of(modules) == [
            ["tests/inner/test_ends.py"],
            ["tests/test_one.py", "tests/test_two.py"],
        ]

    def test_outcomes(self, tool: Any, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        running = tool("running")
        monkeypatch.setattr(running, "OPTIONS", ("-q",))
        run = running.run_modules
        found = run(library, tmp_path, ["tests/test_one.py", "tests/test_two.py"], "cpu", tmp_path / "log")
        one = found["tests/test_one.py"]
        assert {name: outcome.result for name, outcome in one.items()} == {
            "Case.test_passes": "passed",
            "Case.test_parts": "failed",
            "test_skipped[1]": "skipped",
            "test_address": "failed",
        }
        assert one["test_skipped[1]"].why == "no GPU"
        assert "0x " in one["test_address"].why
        assert "/tmp" not in one["test_address"].why
        assert [outcome.result for outcome in found["tests/test_two.py"].values()] == ["failed"]

    def test_where_a_process_ends_each_module_runs_alone(
        self, tool: Any, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = tool("running")
        monkeypatch.setattr(running, "OPTIONS", ("-q",))
        modules = ["tests/inner/test_ends.py", "tests/test_one.py"]
        found = running.run_modules(library, tmp_path, modules, "cpu", tmp_path / "log")
        assert found["tests/test_one.py"]["Case.test_passes"].result == "passed"
        assert "the process ended" in found["tests/inner/test_ends.py"]["(module)"].why


class TestPage:
    def test_results_are_kept_as_they_are(self, tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        page = tool("page")
        monkeypatch.setattr(page, "RESULTS", tmp_path)
        library = tool("libraries").LIBRARIES[0]._replace(reasons={"::test_known": "a known reason"})
        rows = [
            page.Row("a.py", "test_known", {"cpu": "skipped", "npu": "failed"}, "an, error"),
            page.Row("a.py", "test_fault", {"cpu": "passed", "npu": "failed"}, "an error"),
            page.Row("a.py", "test_both", {"cpu": "failed", "npu": "failed"}, ""),
            page.Row("a.py", "test_fine", {"cpu": "passed", "npu": "passed"}, ""),
        ]
        page.write_rows(library, "1.0", rows)
        assert page.read(library) == ("1.0", rows)
        assert [row.test for row in page.faults(library)] == ["test_fault"]

    def test_the_page_is_made_of_the_results(self, tool: Any) -> None:
        page = tool("page")
        assert page.PAGE.read_text(encoding="utf-8") == page.rendered()

    def test_no_test_fails_without_a_reason(self, tool: Any) -> None:
        page = tool("page")
        assert not [row for library in tool("libraries").LIBRARIES for row in page.faults(library)]
