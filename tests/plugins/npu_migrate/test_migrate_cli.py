"""``patchcore migrate``: what it prints, writes and answers, and the rules of other plugins."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from patch_folder import run_command

pytest.importorskip("libcst")

import patchcore as pc

TRAIN = "import torch\r\nx = torch.ones(1).cuda()\r\n"
CONVERTED = "import torch\r\nimport torch_npu  # noqa: F401\r\nx = torch.ones(1).npu()\r\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a project in it."""
    folder = tmp_path / "work"
    for name, content in {
        "shop/train.py": TRAIN,
        "shop/lib/plain.py": "x = 1\n",
        "shop/data.txt": "cuda",
        "shop/run.sh": "CUDA_VISIBLE_DEVICES=0 python train.py\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def migrate(project: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    return functools.partial(run_command, capsys, "migrate")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestWriting:
    def test_by_default_a_diff_is_shown_that_patch_takes_and_nothing_is_written(
        self, migrate: Any, project: Path
    ) -> None:
        before = contents(project)
        result = migrate("shop")
        assert result.code == 0
        assert contents(project) == before
        assert "-x = torch.ones(1).cuda()" in result.out
        assert result.out.endswith("4 files, 1 to change; 1 review, 2 change\n")
        if shutil.which("patch") is None:
            pytest.skip("the program patch is not here")
        subprocess.run(["patch", "-p1", "--binary", "-s"], input=result.out.encode(), cwd=project, check=True)
        assert contents(project)["shop/train.py"] == CONVERTED.encode()

    def test_write_changes_the_files_that_have_to_be(self, migrate: Any, project: Path) -> None:
        before = contents(project)
        result = migrate("shop", "--write")
        assert "shop/train.py:2:19" in result.out
        assert "cuda -> npu" in result.out
        assert "1 changed" in result.out
        assert contents(project) == {**before, "shop/train.py": CONVERTED.encode()}
        assert "0 changed" in migrate("shop", "--write").out

    def test_output_is_the_whole_project(self, migrate: Any, project: Path) -> None:
        before = contents(project / "shop")
        assert migrate("shop", "--output", "shop/npu").code == 0
        assert contents(project / "shop" / "npu") == {**before, "train.py": CONVERTED.encode()}
        assert (project / "shop" / "train.py").read_bytes() == TRAIN.encode()

    def test_a_broken_file_is_told_and_the_rest_is_written(self, migrate: Any, project: Path) -> None:
        (project / "shop" / "broken.py").write_text("import torch.cuda\ndef f(:\n")
        result = migrate("shop", "--write")
        assert result.code == 1
        assert "shop/broken.py:2:" in result.out
        assert (project / "shop" / "train.py").read_bytes() == CONVERTED.encode()

    def test_a_single_file(self, migrate: Any, project: Path) -> None:
        assert migrate("shop/train.py", "--output", "out").code == 0
        assert contents(project / "out") == {"train.py": CONVERTED.encode()}


class TestReports:
    def test_json(self, migrate: Any) -> None:
        found = json.loads(migrate("shop", "--format", "json").out)
        assert (found["schema_version"], found["path"], found["files"], found["changed"]) == (1, "shop", 4, 1)
        assert found["counts"]["change"] == 2
        (rewritten,) = (row for row in found["findings"] if row["rule"] == "tensor.cuda")
        assert rewritten == {
            "file": "shop/train.py", "line": 2, "column": 19, "rule": "tensor.cuda", "level": "change",
            "before": "cuda", "after": "npu", "note": "",
        }  # fmt: skip

    def test_csv(self, migrate: Any) -> None:
        rows = list(csv.DictReader(io.StringIO(migrate("shop", "--format", "csv").out)))
        assert [(row["file"], row["line"], row["level"]) for row in rows] == [
            ("shop/run.sh", "1", "review"),
            ("shop/train.py", "1", "change"),
            ("shop/train.py", "2", "change"),
        ]

    def test_reports_are_written_beside_what_is_printed(self, migrate: Any, project: Path) -> None:
        migrate("shop", "--report", "a.json", "--report", "b.csv", "--report", "c.html")
        assert len(json.loads((project / "a.json").read_text())["findings"]) == 3
        assert len((project / "b.csv").read_text().splitlines()) == 4
        page = (project / "c.html").read_text()
        assert '<code class="command">patchcore migrate shop --write</code>' in page
        assert page.count("<h2 ") == 1 + len(
            {finding["level"] for finding in json.loads((project / "a.json").read_text())["findings"]}
        )

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            ("torch.cuda.nvtx.mark('x')", 1),
            ("torch.cuda.no_such_name()", 1),
            ("names = {'cuda': 1}", 0),
            ("torch.backends.cudnn.benchmark = True", 0),
        ],
        ids=["unsupported", "unknown", "review", "advice"],
    )
    def test_the_exit_code_says_whether_a_person_is_needed(
        self, migrate: Any, project: Path, line: str, code: int
    ) -> None:
        (project / "shop" / "more.py").write_text(f"import torch\n{line}\n")
        assert migrate("shop").code == code

    def test_what_is_not_looked_at_is_told_with_the_reason(self, project: Path, migrate: Any) -> None:
        for name in ("env/pyvenv.cfg", "build/lib/a.py", ".git/config", "old/a.py", "notes.txt", "drafts/b.txt"):
            (project / "shop" / name).parent.mkdir(parents=True, exist_ok=True)
            (project / "shop" / name).touch()
        (project / "shop" / ".gitignore").write_text("old/\nnotes.txt\n*.pth\nscratch.py\n")
        (project / "shop" / "scratch.py").touch()
        (project / "shop" / "latest").symlink_to(project / "shop" / "old")
        (project / "shop" / "gone.py").symlink_to("nowhere.py")
        result = migrate("shop", "--report", "a.json", "--report", "a.html")
        told = [line for line in result.out.splitlines() if line.startswith("left out")]
        assert told == [
            "left out (its name is not one of source code): build/",
            "left out (a virtual environment): env/",
            "left out (a broken link, or a device): gone.py",
            "left out (a link to a folder): latest/",
            "left out (.gitignore): old/, scratch.py",
        ]
        left_out = json.loads((project / "a.json").read_text())["left_out"]
        assert {"name": "latest/", "why": "a link to a folder"} in left_out
        assert "left out: not read" in (project / "a.html").read_text()

    def test_a_folder_that_cannot_be_read_is_a_finding(
        self, project: Path, migrate: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / "shop" / "locked").mkdir()
        scan = os.scandir

        def refuse(path: Any) -> Any:
            if str(path).endswith("locked"):
                raise PermissionError(13, "Permission denied")
            return scan(path)

        monkeypatch.setattr(os, "scandir", refuse)
        result = migrate("shop")
        assert result.code == 1
        assert re.search(r"shop/locked:1:1 .*not read: Permission denied", result.out)

    def test_findings_can_be_left_out(self, migrate: Any) -> None:
        result = migrate("shop", "--disable", "text.*", "--exclude", "train.py")
        assert result.out == "left out (--exclude): train.py\n3 files, 0 to change; nothing found\n"


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nowhere"], "there is no file or folder nowhere"),
            (["shop", "--output", "shop"], "to change it in place, use --write"),
            (["shop/lib", "--output", "shop"], "exists and is not empty"),
            (["shop", "--report", "x.txt"], "ends in .json, .csv or .html"),
            (["shop", "--disable", "tensor.cud"], "did you mean 'tensor.cuda'?"),
            (["shop", "--rules", "no.toml"], "the rules in no.toml cannot be read"),
        ],
    )
    def test_are_usage_errors_and_change_nothing(
        self, migrate: Any, project: Path, arguments: list[str], message: str
    ) -> None:
        before = contents(project)
        result = migrate(*arguments)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
        assert contents(project) == before

    def test_without_jinja_a_page_is_refused_before_anything_is_read(
        self, migrate: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "jinja2", None)
        result = migrate("shop", "--report", "a.html")
        assert (result.code, result.out) == (2, "")
        assert pc.install_command("patchcore[html]") in result.err

    def test_the_plugin_imports_neither_libcst_nor_torch(self) -> None:
        code = "import sys, npu_migrate.plugin, npu_migrate.migrate.command as c\n" + (
            "print([name for name in ('libcst', 'torch', 'pathspec') if name in sys.modules])"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


RULES = """
[[rule]]
id = "acme.ops"
kind = "attr"
match = "acme_cuda.*"
replace = "acme_npu.*"
"""
PLUGIN = """
    from pathlib import Path

    import patchcore as pc

    @pc.hookimpl(optionalhook=True)
    def register_migration_rules():
        yield Path(__file__).with_name("acme_rules.toml")
        yield {"rule": [{"id": "tensor.cuda", "kind": "method", "match": "cuda", "replace": "on_npu"}]}
        yield {"rule": [{"id": "acme.broken", "kind": "no such kind", "match": "x"}]}
"""


class TestRulesOfOthers:
    def test_a_file_of_the_user(self, migrate: Any, project: Path) -> None:
        (project / "mine.toml").write_text(RULES)
        (project / "shop" / "more.py").write_text("import acme_cuda\nacme_cuda.fast(1)\nacme_cuda.ops.slow()\n")
        assert migrate("shop", "--rules", "mine.toml", "--write").code == 0
        assert (project / "shop" / "more.py").read_text() == (
            "import acme_cuda\nimport torch_npu  # noqa: F401\nacme_npu.fast(1)\nacme_npu.ops.slow()\n"
        )

    def test_those_of_another_plugin_and_one_of_them_broken(
        self, migrate: Any, project: Path, make_package: Any
    ) -> None:
        folder = make_package({"acme_plugin": PLUGIN})
        (folder / "acme_rules.toml").write_text(RULES)
        write_distribution(folder, "acme-rules", plugins={"acme": "acme_plugin"})
        result = migrate("shop", "--write")
        assert b"torch.ones(1).on_npu()" in contents(project)["shop/train.py"]
        assert "plugin acme (acme-rules 1.0): register_migration_rules failed" in result.err
        assert "kind is 'no such kind', expected one of attr" in result.err
