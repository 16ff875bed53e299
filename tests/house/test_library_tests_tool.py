"""``python -m tools.library_tests``: what it reads from JUnit files, and what its page says of the results."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module of the tool by its name."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"tools.library_tests.{name}")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("by", ["tag", "commit"])
def test_sources_are_cloned_once(tool: Any, tmp_path: Path, by: str) -> None:
    origin = tmp_path / "origin"
    for name in ("tests/test_a.py", "docs/page.md"):
        (origin / name).parent.mkdir(parents=True)
        (origin / name).touch()

    def git(*arguments: str) -> str:
        author = ("-c", "user.name=n", "-c", "user.email=n@n")
        command = ["git", "-C", str(origin), *author, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    git("init", "--quiet")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")  # as the hosts of repositories do
    git("add", ".")
    git("commit", "-m", "one")
    git("tag", "v1.0")
    revision = "v1.0" if by == "tag" else git("rev-parse", "HEAD")
    (origin / "tests" / "test_later.py").touch()
    git("add", ".")
    git("commit", "-m", "two")
    library = tool("libraries").LIBRARIES[0]._replace(url=origin.as_uri(), needed=("tests",))
    folder = tmp_path / "library-1.0"
    (tmp_path / "library-1.partial").mkdir()  # of a clone that was interrupted
    (tmp_path / "library-1.partial" / "rest").touch()
    tool("running").get_sources(library, revision, folder)
    assert [path.name for path in folder.iterdir() if path.name != ".git"] == ["tests"]
    assert tool("running").modules_of(library, folder) == ["tests/test_a.py"]
    shutil.rmtree(origin)
    tool("running").get_sources(library, revision, folder)


def test_the_revision_is_a_tag_or_the_commit_of_the_release(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries, revision_of = tool("libraries"), tool("running").revision_of
    assert revision_of(libraries.LIBRARIES[0], "1.2") == "v1.2"
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    library = libraries.TORCH_NPU._replace(name="adapter")
    file = tmp_path / "adapter" / "version.py"
    file.write_text("__version__ = '1.2'\ngit_version = 'c0ffee'\n")
    assert revision_of(library, "1.2") == "c0ffee"
    file.write_text("__version__ = '1.2'")
    with pytest.raises(RuntimeError, match=r"adapter 1.2 does not have the commit .* use --sources"):
        revision_of(library, "1.2")


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
def test_process():
    class ProcessRaisedException(Exception): pass
    raise ProcessRaisedException("\\n\\nProcess 0 ended:\\nRuntimeError: why")
def test_address(): assert not "<object at 0x7f00 in /tmp/some/where/file.py>"
def test_refused(): raise RuntimeError("one\\n[E] aclnnOne or aclnnOneGetWorkspaceSize not in lib")
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
        library = library._replace(refusals=(" not in lib",))
        found = run(library, tmp_path, ["tests/test_one.py", "tests/test_two.py"], "cpu", tmp_path / "log")
        one = found["tests/test_one.py"]
        assert {name: outcome.result for name, outcome in one.items()} == {
            "Case.test_passes": "passed",
            "Case.test_parts": "failed",
            "test_skipped[1]": "skipped",
            "test_address": "failed",
            "test_process": "failed",
            "test_refused": "refused",
        }
        assert one["test_process"].why == "RuntimeError: why"
        assert one["test_skipped[1]"].why == "no GPU"
        assert one["test_refused"].why == "aclnnOne or aclnnOneGetWorkspaceSize not in lib"
        assert "0x " in one["test_address"].why
        assert "/tmp" not in one["test_address"].why
        assert [outcome.result for outcome in found["tests/test_two.py"].values()] == ["failed"]

    def test_a_module_of_which_no_test_runs_has_a_result(
        self, tool: Any, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = tool("running")
        monkeypatch.setattr(running, "OPTIONS", ("-q", "--deselect=tests/test_none.py"))
        (tmp_path / "tests" / "test_none.py").write_text("def test_it(): pass")
        found = running.run_modules(library, tmp_path, ["tests/test_none.py"], "cpu", tmp_path / "log")
        assert found == {"tests/test_none.py": {"(module)": ("skipped", "no test runs on this device")}}

    @pytest.mark.parametrize("mode", ["cpu", "npu"])
    def test_variables_of_a_folder(
        self, tool: Any, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
    ) -> None:
        running, found = tool("running"), []
        monkeypatch.setattr(running, "_run", lambda *arguments, **options: found.append(options["env"]) or True)
        library = library._replace(of_folders={"tests": {"ONLY_CUDA": "1"}, "others": {"ONLY_CPU": "1"}})
        running.run_modules(library, tmp_path, ["tests/test_one.py"], mode, tmp_path / "log")
        assert found[0].get("ONLY_CUDA") == "1"
        assert "ONLY_CPU" not in found[0]

    def test_where_a_process_ends_each_module_runs_alone(
        self, tool: Any, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = tool("running")
        monkeypatch.setattr(running, "OPTIONS", ("-q",))
        modules = ["tests/inner/test_ends.py", "tests/test_one.py"]
        found = running.run_modules(library, tmp_path, modules, "cpu", tmp_path / "log")
        assert found["tests/test_one.py"]["Case.test_passes"].result == "passed"
        assert "the process ended" in found["tests/inner/test_ends.py"]["(module)"].why

    def test_a_process_that_hangs_is_ended(
        self, tool: Any, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "tests" / "test_hangs.py").write_text("import time; time.sleep(100)")
        running = tool("running")
        monkeypatch.setattr(running, "OPTIONS", ("-q",))
        monkeypatch.setattr(running, "LIMIT", 2)
        found = running.run_modules(library, tmp_path, ["tests/test_hangs.py"], "cpu", tmp_path / "log")
        assert [outcome.result for outcome in found["tests/test_hangs.py"].values()] == ["late"]

    def test_a_process_that_a_test_has_left_is_ended(
        self, tool: Any, library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "tests" / "test_leaves.py").write_text(
            "import atexit, time\natexit.register(time.sleep, 100)\ndef test_it(): pass"
        )
        running = tool("running")
        monkeypatch.setattr(running, "OPTIONS", ("-q",))
        monkeypatch.setattr(running, "REST", 1)
        found = running.run_modules(library, tmp_path, ["tests/test_leaves.py"], "cpu", tmp_path / "log")
        assert found["tests/test_leaves.py"]["test_it"].result == "passed"


class TestResults:
    """A table can be made in several checkouts: each run adds its modules."""

    @pytest.fixture
    def tool_here(self, tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr(tool("page"), "RESULTS", tmp_path / "results")
        monkeypatch.setattr(tool("__main__"), "WORK", tmp_path)
        return tool

    @pytest.fixture
    def library(self, tool_here: Any) -> Any:
        library = tool_here("libraries").LIBRARIES[0]
        page = tool_here("page")
        page.write_rows(library, "1.0", [page.Row("test_a.py", "test", {"cpu": "skipped", "npu": "failed"}, "why")])
        return library

    def run(
        self, tool: Any, monkeypatch: pytest.MonkeyPatch, library: Any, version: str, again: str | None
    ) -> list[str]:
        """Run ``test_a.py`` and ``test_b.py`` on the NPU; return those that were run."""
        ran: list[str] = []

        def run_modules(library: Any, sources: Path, modules: list[str], *others: Any) -> Any:
            ran.extend(modules)
            return {module: {"test": tool("running").Outcome("passed")} for module in modules}

        monkeypatch.setattr(tool("running"), "run_modules", run_modules)
        main = tool("__main__")
        main.run_all(library, version, Path(), ["test_a.py", "test_b.py"], "npu", again=again)
        main.collect(library, version, Path())
        return ran

    def test_modules_in_the_table_are_not_run_and_kept(
        self, tool_here: Any, library: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.run(tool_here, monkeypatch, library, "1.0", None) == ["test_b.py"]
        assert self.run(tool_here, monkeypatch, library, "1.0", None) == []
        rows = tool_here("page").read(library)[1]
        assert [(row.module, row.results, row.why) for row in rows] == [
            ("test_a.py", {"cpu": "skipped", "npu": "failed"}, "why"),
            ("test_b.py", {"npu": "passed"}, ""),
        ]

    def test_a_module_that_is_run_again_has_its_new_result(
        self, tool_here: Any, library: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.run(tool_here, monkeypatch, library, "1.0", "_a") == ["test_a.py"]
        (row,) = tool_here("page").read(library)[1]
        assert (row.results, row.why) == ({"cpu": "skipped", "npu": "passed"}, "")

    def test_of_what_does_not_pass_disabled_tests_are_apart(
        self, tool_here: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        library = tool_here("libraries").TORCH_NPU._replace(root=".", disabled="disabled.json")
        names = ("test_a (a.test_a.C)", "test_b (__main__.C)", "test_c (b.C)", "test_e (a.test_a.C)")
        (tmp_path / "disabled.json").write_text(json.dumps({name: ["", [""]] for name in names}))
        outcomes = {"a": "failed", "b": "refused", "c": "failed", "d": "failed", "e": "passed", "f": "passed"}

        def run_modules(library: Any, sources: Path, modules: list[str], *others: Any) -> Any:
            make = tool_here("running").Outcome
            return {module: {f"C.test_{n}": make(result, "") for n, result in outcomes.items()} for module in modules}

        monkeypatch.setattr(tool_here("running"), "run_modules", run_modules)
        main = tool_here("__main__")
        main.run_all(library, "1.0", tmp_path, ["a/test_a.py"], "cann", again=None)
        main.collect(library, "1.0", tmp_path)
        rows = tool_here("page").read(library)[1]
        assert [row.results["cann"] for row in rows] == ["disabled", "disabled", "failed", "failed", "passed", "passed"]
        assert [bool(row.why) for row in rows][-2:] == [True, False]
        main.outcome_of(library, "1.0", "a/test_a.py", "cann").unlink()  # of another checkout
        main.collect(library, "1.0", tmp_path)
        assert tool_here("page").read(library)[1] == rows

    def test_another_release_starts_anew(self, tool_here: Any, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.run(tool_here, monkeypatch, library, "2.0", None) == ["test_a.py", "test_b.py"]
        version, rows = tool_here("page").read(library)
        assert (version, [row.results for row in rows]) == ("2.0", [{"npu": "passed"}] * 2)


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

    def test_that_of_torch_npu_is_made_of_its_results(self, tool: Any) -> None:
        page = tool("adapter_page")
        assert page.PAGE.read_text(encoding="utf-8") == page.rendered()

    def test_no_test_fails_without_a_reason(self, tool: Any) -> None:
        page = tool("page")
        assert not [row for library in tool("libraries").LIBRARIES for row in page.faults(library)]


def test_tests_of_models_are_made_beside_the_published_mixin(tool: Any, tmp_path: Path) -> None:
    library = tool("libraries").TRANSFORMERS
    folder = tmp_path / "tests" / "models"
    folder.parent.mkdir()
    tool("running")._make_tests(library, folder)
    modules = tool("running").modules_of(library, tmp_path)
    assert modules == [f"tests/models/test_{name}.py" for name in ("bert", "gemma3", "llama", "mixtral", "qwen3")]
    for path in [*folder.glob("*.py"), folder.parent / "utils" / "test_configuration_utils.py"]:
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_models_of_transformers_have_the_same_results_with_the_patches(tool: Any) -> None:
    library = tool("libraries").TRANSFORMERS
    _, rows = tool("page").read(library)
    assert len(rows) >= 800
    assert [row.test for row in rows if row.results["cann"] != row.results["cann-patched"]] == []
