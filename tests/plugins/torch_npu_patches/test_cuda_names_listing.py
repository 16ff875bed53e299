"""The list of lines of known packages: the command that writes it, what it decides, and files that are malformed."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import patchcore as pc
from torch_npu_patches.cuda_names import LIBRARIES, branches, editing, lines, listing
from torch_npu_patches.cuda_names.__main__ import listed_rows, main

MODULE = """
def plain(d):
    return d == "cuda"

def knows(d):
    return "npu" if d == "npu" else d == "cuda"

def chain(a, b):
    return a == b == "cuda"
"""
OFF = ["off", "crate/kinds.py:3", "plain", 'd == "cuda"', "its kernel is for CUDA only"]
ON = ["on", "crate/kinds.py:6", "knows", 'd == "cuda"', "its branch for NPUs is broken"]


@pytest.fixture(autouse=True)
def no_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lines, "LINES", {})
    yield
    for cached in (listing.known, listing._by_file):
        cached.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Install the package ``crate``, and make a file the list of the plugin."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("crate", "crate.kinds"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def install(found: Any, version: str = "1.0", source: str = MODULE) -> Path:
        (tmp_path / "crate").mkdir(exist_ok=True)
        (tmp_path / "crate" / "__init__.py").touch()
        (tmp_path / "crate" / "kinds.py").write_text(source)
        for old in tmp_path.glob("*.dist-info/*"):
            old.unlink()
        information = tmp_path / "crate-1.dist-info"
        information.mkdir(exist_ok=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: crate\nVersion: {version}\n")
        (information / "top_level.txt").write_text("crate\n")
        importlib.invalidate_caches()
        path = tmp_path / "list.json"
        path.write_text(found if isinstance(found, str) else json.dumps(found))
        monkeypatch.setattr(listing, "LISTING", path)
        for cached in (listing.known, listing._by_file):
            cached.cache_clear()
        return path

    return install


def edited(folder: Path, source: str = MODULE) -> dict[int, str]:
    """Edit the module and return what became of each line: what runs there, or why it is left alone."""
    tree = ast.parse(source)
    module = pc.Source("crate.kinds", str(folder / "crate" / "kinds.py"), source, editing.find(source))
    editing.edit(tree, module)
    return {line.line: line.why or line.after for line in lines.lines_of(module.file, module.notes)}


BY_RULE = {3: 'd in ("cuda", "npu")', 6: "its function names npu itself", 9: "it is a chain of comparisons"}


class TestVerdicts:
    def test_the_list_decides(self, install: Callable[..., Path], tmp_path: Path) -> None:
        install({"crate": {"1.0": [OFF, ON]}}, "1.0+cpu")
        assert edited(tmp_path) == {
            **BY_RULE,
            3: "its kernel is for CUDA only",
            6: 'd in ("cuda", "npu"); its branch for NPUs is broken',
        }

    @pytest.mark.parametrize(
        "found",
        [
            {},
            {"crate": {"0.9": [OFF, ON]}},
            {"crate": {"1.0": [[*OFF[:3], 'e == "cuda"', OFF[4]], ["off", "crate/kinds.py:4", *OFF[2:]]]}},
            {"crate": {"1.0": [["off", "crate/other.py:3", *OFF[2:]]]}},
        ],
        ids=["no list", "another version", "other lines", "another file"],
    )
    def test_other_lines_follow_the_rule(self, install: Callable[..., Path], tmp_path: Path, found: Any) -> None:
        install(found)
        assert edited(tmp_path) == BY_RULE

    def test_looks_for_cuda_too(self, install: Callable[..., Path], tmp_path: Path) -> None:
        source = "def kind():\n    if torch.cuda.is_available(): return 1\n    return 2 if is_npu_available() else 3\n"
        row = ["off", "crate/kinds.py:2", "kind", "torch.cuda.is_available()", "it counts the memory of CUDA"]
        install({"crate": {"1.0": [row]}})
        for name, reason in (("crate.kinds", row[4]), ("crate.others", "")):
            file = str(tmp_path / f"{name.replace('.', '/')}.py")
            module = pc.Source(name, file, source, branches.find(source))
            branches.edit(ast.parse(source), module)
            lines.keep(file, module.notes)
            assert [line.why for line in lines.found() if line.file == file] == [reason]


class TestCommand:
    def test_it_shows_what_the_list_decides(
        self, install: Callable[..., Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        install({"crate": {"1.0": [OFF]}})
        assert main(["crate"]) == 0
        out = capsys.readouterr().out
        assert 'off crate 1.0  crate/kinds.py:3  plain\n      d == "cuda": its kernel is for CUDA only\n' in out
        assert out.endswith("3 lines: 0 on, 3 off\n")

    def test_verdicts_changed_by_hand_go_on_in_the_next_version(self, install: Callable[..., Path]) -> None:
        path = install({"other": {"3": []}, "crate": {"1.0": [OFF, ON]}}, "1.1", f"import os\n{MODULE}")
        assert main(["crate", "--write", str(path)]) == 0
        found = json.loads(path.read_text())
        assert found["crate"]["1.0"] == [OFF, ON]
        assert found["other"] == {"3": []}
        assert found["crate"]["1.1"] == [
            ["off", "crate/kinds.py:4", *OFF[2:]],
            ["on", "crate/kinds.py:7", *ON[2:]],
            ["off", "crate/kinds.py:10", "chain", 'a == b == "cuda"', "it is a chain of comparisons"],
        ]

    def test_what_the_rule_has_changed_its_mind_about_is_written_anew(self, install: Callable[..., Path]) -> None:
        path = install({"crate": {"1.0": [[*OFF[:4], "x"], ["off", *ON[1:4], "an old reason of the rule"]]}})
        assert main(["crate", "--write", str(path)]) == 0
        rows = json.loads(path.read_text())["crate"]["1.0"]
        assert [row[4] for row in rows] == ["x", BY_RULE[6], BY_RULE[9]]


KNOWN = [(package, version) for package, versions in listing.load(listing.LISTING).items() for version in versions]


@pytest.mark.parametrize(("package", "version"), KNOWN, ids=" ".join)
def test_the_command_writes_the_list_of_the_plugin(package: str, version: str) -> None:
    if listing.public_version(package) != version:
        pytest.skip(f"{package} {version} is not installed")
    versions = listing.load(listing.LISTING)[package]
    assert listed_rows(package, versions) == versions[version]


def test_the_list_of_the_plugin_is_as_the_command_writes_it() -> None:
    assert listing.dumped(listing.load(listing.LISTING)) == listing.LISTING.read_text(encoding="utf-8")


MALFORMED = {
    "no JSON": ("{", "the list of lines cannot be read: Expecting"),
    "nested": ("[" * 100_000, "the list of lines cannot be read"),
    "no object": ([], "a list of lines is an object of packages"),
    "no versions": ({"crate": [OFF]}, "a list of lines is an object of packages"),
    "no rows": ({"crate": {"1.0": {}}}, "crate 1.0: expected an array of rows, got dict"),
    "a verdict": ({"crate": {"1.0": [ON, ["maybe", *OFF[1:]]]}}, 'crate 1.0: row 2: expected ["on" or "off", '),
    "a number": ({"crate": {"1.0": [[*OFF[:4], 3]]}}, "crate 1.0: row 1: expected"),
    "too short": ({"crate": {"1.0": [OFF[:4]]}}, "crate 1.0: row 1: expected"),
    "no line": ({"crate": {"1.0": [["off", "crate/kinds.py", *OFF[2:]]]}}, "crate 1.0: row 1: expected"),
    "no reason": ({"crate": {"1.0": [[*OFF[:4], ""]]}}, '"off" needs a reason'),
    "twice": ({"crate": {"1.0": [OFF, OFF]}}, 'row 2: crate/kinds.py:3 d == "cuda" is there twice'),
}


class TestMalformed:
    @pytest.mark.parametrize("kind", MALFORMED)
    def test_the_command_names_the_file_and_the_row(
        self, install: Callable[..., Path], capsys: pytest.CaptureFixture[str], kind: str
    ) -> None:
        found, message = MALFORMED[kind]
        path = install(found)
        assert main(["crate"]) == 2
        error = capsys.readouterr().err
        assert str(path) in error
        assert message in error

    def test_nothing_is_written_over_it(self, install: Callable[..., Path]) -> None:
        path = install("{")
        assert main(["crate", "--write", str(path)]) == 2
        assert path.read_text() == "{"

    def test_the_patch_fails_and_the_import_goes_on(self, install: Callable[..., Path]) -> None:
        path = install("{")
        rules = LIBRARIES.evolve(concerns=None)
        with pc.Patcher([pc.Patch("crates", changes=[pc.Rewrite("crate.*", rules=rules)])]) as patcher:
            assert importlib.import_module("crate.kinds").plain("npu") is False
            outcome = patcher.report()["crates"]
        assert outcome.status == "failed"
        assert f"{path}: the list of lines cannot be read" in str(outcome.reason)
