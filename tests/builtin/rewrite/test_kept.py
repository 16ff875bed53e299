"""Results of rules that a later process takes from a file, and when it does not."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import patchcore as pc
from patchcore.builtin.rewrite import kept

#: A package of rules that write a line to a file whenever they work, and a plugin's patch that uses them.
RULES = """
import ast, os
import patchcore as pc

def log(what):
    with open(os.environ["WORKED"], "a") as file:
        file.write(what + "\\n")

def find(text):
    log("find")
    return [number for number, line in enumerate(text.split("\\n"), 1) if "apple" in line]

def edit(tree, source):
    log("edit")
    found = [node for node in ast.walk(tree) if getattr(node, "value", None) == "apple"]
    for node in found:
        node.value = "PEAR"
    source.notes += [(node.lineno, "an apple") for node in found]
    if "ripe" in source.text:
        source.notes.append((0, "ripe"))
    return [node.lineno for node in found]

NOTES = []

def noted(file, notes):
    NOTES.append((os.path.basename(file), *notes))

def concerns(name, file):
    return name.startswith("fruit")

RULES = pc.Rules(edit, words="apple", find=find, noted=noted, concerns=concerns, depends_on="orchard")
"""
#: A program that prints what the modules give with the patch and without it.
PROGRAM = """
import sys
import patchcore as pc
import orchard
patcher = pc.Patcher([pc.Patch("p", [pc.Rewrite("*", orchard.RULES)])])
patcher.apply()
import fruit, fruit_seeds, fruit_leaves
print(fruit.plain(), fruit.Shop().name(), fruit_seeds.TOP, fruit_leaves.kind(), type(fruit_leaves.__loader__).__name__)
print(orchard.NOTES[:3])
print(patcher.report().patches[0].changes[0].reason)
orchard.log("revert")
patcher.revert()
print(fruit.plain(), fruit.Shop().name())
"""
PLAIN = {
    "fruit.py": 'def plain(): return "apple"\nclass Shop:\n    def name(self): return "apple"\n',
    "fruit_seeds.py": 'TOP = "apple"\n',
    "fruit_leaves.py": '"""Says apple and ripe in a comment."""\ndef kind(): return "leaf"\n',
}
EXPECTED = """\
PEAR PEAR PEAR leaf SourceFileLoader
[('fruit.py', (1, 'an apple'), (3, 'an apple')), ('fruit_seeds.py', (1, 'an apple')), ('fruit_leaves.py', (0, 'ripe'))]
3 lines in 2 modules
apple apple
"""


class Orchard:
    """Runs the program; each run is a process of its own. All have one cache."""

    def __init__(self, folder: Path, run_python: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._run = run_python
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setenv("WORKED", str(folder / "worked"))
        monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        self.write({"orchard/__init__.py": RULES, **PLAIN})

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def run(self, program: str = PROGRAM) -> tuple[str, int]:
        """Return what the program printed, and how often rules worked before the revert."""
        worked = self.folder / "worked"
        worked.write_text("")
        printed = self._run(program)
        return printed, worked.read_text().partition("revert")[0].count("\n")

    @property
    def cache(self) -> Path:
        """The file with the results."""
        (path,) = (self.folder / "cache" / "patchcore" / "rewrite").iterdir()
        return path


@pytest.fixture
def orchard(tmp_path: Path, run_python: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Orchard:
    return Orchard(tmp_path, run_python, monkeypatch)


class TestLaterProcess:
    def test_runs_the_same_without_work_of_the_rules(self, orchard: Orchard) -> None:
        first, worked = orchard.run()
        assert first == EXPECTED
        assert worked >= 6  # a search and an edit of three modules
        assert orchard.run() == (EXPECTED, 0)

    def test_works_again_for_a_source_that_has_changed(self, orchard: Orchard) -> None:
        orchard.run()
        orchard.write({"fruit_leaves.py": 'def kind():\n    return "apple"\n'})
        printed, worked = orchard.run()
        assert printed.startswith("PEAR PEAR PEAR PEAR ")
        assert worked == 2
        assert orchard.run() == (printed, 0)

    def test_works_again_when_a_file_of_the_rules_has_changed(self, orchard: Orchard) -> None:
        orchard.run()
        orchard.write({"orchard/__init__.py": RULES.replace("PEAR", "PLUMS")})
        printed, worked = orchard.run()
        assert printed == EXPECTED.replace("PEAR", "PLUMS")
        assert worked >= 6
        assert orchard.run() == (printed, 0)

    def test_works_again_when_a_file_is_new_in_the_package(self, orchard: Orchard) -> None:
        orchard.run()
        orchard.write({"orchard/prices.json": "{}"})
        assert orchard.run()[1] >= 6

    @pytest.mark.parametrize("damage", [b"", b"\0\0", b"\xff" * 4000], ids=["empty", "short", "other bytes"])
    def test_works_again_when_the_file_is_damaged(self, orchard: Orchard, damage: bytes) -> None:
        orchard.run()
        whole = orchard.cache.read_bytes()
        orchard.cache.write_bytes(whole[: len(whole) // 2] + damage)
        printed, worked = orchard.run()
        assert printed == EXPECTED
        assert worked >= 6
        assert orchard.run() == (EXPECTED, 0)

    def test_uses_no_folder_that_others_can_enter(self, orchard: Orchard) -> None:
        orchard.run()
        orchard.cache.parent.chmod(0o777)
        before = orchard.cache.read_bytes()
        printed, worked = orchard.run()
        assert printed == EXPECTED
        assert worked >= 6
        assert orchard.cache.read_bytes() == before

    def test_adds_to_what_others_have_found(self, orchard: Orchard) -> None:
        orchard.run(PROGRAM.replace(", fruit_leaves\n", "\nfruit_leaves = fruit_seeds\nfruit_seeds.kind = print\n"))
        assert orchard.run()[1] == 2
        assert orchard.run() == (EXPECTED, 0)

    def test_a_change_with_other_modules_has_results_of_its_own(self, orchard: Orchard) -> None:
        orchard.run()
        printed, _ = orchard.run(PROGRAM.replace('"*"', '"fruit"'))
        assert printed.startswith("PEAR PEAR apple leaf ")


def test_nothing_is_written_without_bytecode(orchard: Orchard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert orchard.run()[0] == EXPECTED
    assert not (orchard.folder / "cache").exists()


def test_a_home_that_cannot_be_written_to_is_no_error(orchard: Orchard) -> None:
    (orchard.folder / "cache").write_text("a file")
    assert orchard.run()[0] == EXPECTED
    assert orchard.run()[0] == EXPECTED


def test_notes_that_are_no_plain_data_are_not_kept(orchard: Orchard) -> None:
    orchard.write({"orchard/__init__.py": RULES.replace('(0, "ripe")', "object")})
    printed, worked = orchard.run()
    assert "<class 'object'>" in printed
    assert orchard.run()[1] == worked


def test_the_rules_of_another_change_are_not_forgotten(orchard: Orchard) -> None:
    more = PROGRAM.replace(
        "[pc.Rewrite(",
        '[pc.Rewrite("fruit_leaves", pc.Rules(lambda tree, source: [], concerns=print)), pc.Rewrite(',
    )
    asked = "fruit_leaves " + str(orchard.folder / "fruit_leaves.py")
    for _ in range(2):
        assert asked in orchard.run(more)[0]


@pytest.mark.parametrize(
    "options",
    [{"edit": lambda tree, source: []}, {"find": functools.partial(list)}, {"concerns": lambda name, file: True}],
    ids=lambda options: next(iter(options)),
)
def test_functions_that_a_name_does_not_identify_are_refused(options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"edit": plain_edit, **options}
    (name,) = options
    with pytest.raises(pc.DeclarationError, match=f"with depends_on, {name} must be a function at the top of a module"):
        pc.Rules(words="apple", depends_on="orchard", **given)


def plain_edit(tree: ast.Module, source: pc.Source) -> list[int]:
    return []


@pytest.mark.parametrize("names", ["", "a-b", ["os", 3]])
def test_names_of_packages_are_checked(names: Any) -> None:
    with pytest.raises(pc.DeclarationError, match="depends_on must be names of packages or modules"):
        pc.Rules(plain_edit, depends_on=names if names else [""])


def test_a_package_that_does_not_exist_fails_the_patch() -> None:
    rules = pc.Rules(plain_edit, words="apple", depends_on="orchrd")
    patcher = pc.Patcher([pc.Patch("p", [pc.Rewrite("*", rules)])], strict=True)
    with pytest.raises(pc.PatchError, match="depends_on has 'orchrd', which is no package or module with a file"):
        patcher.apply()


def test_a_result_is_not_used_for_other_code() -> None:
    code = compile("def f(): return 1\n", "f.py", "exec")
    other = compile("x = 1\ndef g(): return 1\n", "f.py", "exec")
    (place,) = (number for number, each in enumerate(code.co_consts) if isinstance(each, CodeType))
    result = kept.Result((0,), (((place,), code.co_consts[place]),), ((1,),), (), (), ((),))
    made = result.edited(code)
    assert made is not None
    assert made.code == code
    assert result.edited(other) is None
    assert result.edited(compile("", "f.py", "exec")) is None
