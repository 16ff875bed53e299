"""What a program compiles itself is edited: by ``compile``, in consoles, under pdb and its kin."""

from __future__ import annotations

import ast
import builtins
import code
import codeop
import functools
import gc
import importlib
import linecache
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import Programs

import patchcore as pc
from patchcore.builtin.explain.explaining import Explainer
from patchcore.declare.target import Target

FRUIT = "def fruit():\n    return 'apple'\nfound = fruit()\n"


def edit(tree: ast.Module, source: pc.Source) -> list[int]:
    """Make ``ripe("apple")`` of "apple"."""
    ripe = source.reference(f"{__name__}:ripe")

    class Editor(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            if node.value != "apple":
                return node
            lines.append(node.lineno)
            return ast.fix_missing_locations(ast.copy_location(ast.Call(ripe, [node], []), node))

    lines: list[int] = []
    Editor().visit(tree)
    return lines


def ripe(fruit: str) -> str:
    return f"ripe {fruit}"


def raising(tree: ast.Module, source: pc.Source) -> list[int]:
    raise ZeroDivisionError


def here(name: str, file: str) -> bool:
    return name in ("__main__", "garden") or file == __file__


RULES = pc.Rules(edit, words="apple", concerns=here)


@pytest.fixture
def applied() -> Iterator[pc.Patcher]:
    with pc.Patcher([pc.Patch("fruit", [pc.Rewrite("*", RULES)])], plugins=[]) as patcher:
        yield patcher


def compiled_by(caller: str, *arguments: Any, **options: Any) -> Any:
    """Return what ``compile`` returns to a module called ``caller``."""
    space = {"__name__": caller, "arguments": arguments, "options": options}
    exec("code = compile(*arguments, **options)", space)
    return space["code"]


def found_in(code: Any, *spaces: dict[str, Any]) -> Any:
    spaces = spaces or ({},)
    exec(code, *spaces)
    return spaces[-1]["found"]


class TestCompile:
    @pytest.mark.parametrize("source", [FRUIT, FRUIT.encode(), f"# coding: latin-1\n{FRUIT}".encode()])
    def test_a_text(self, applied: pc.Patcher, source: Any) -> None:
        assert found_in(compiled_by("garden", source, "a.py", "exec")) == "ripe apple"
        assert "2 lines in 1 module" not in str(applied.report())
        assert "1 line in 1 module" in str(applied.report())

    def test_locals_of_their_own(self, applied: pc.Patcher) -> None:
        assert found_in(compiled_by("garden", FRUIT, "a.py", "exec"), {}, {"fruit": None}) == "ripe apple"
        space: dict[str, Any] = {}
        exec(compiled_by("garden", FRUIT, "a.py", "exec"), {}, space)
        assert space["fruit"]() == "ripe apple"

    @pytest.mark.parametrize(
        "arguments",
        [(FRUIT, "a.py", "exec", ast.PyCF_ONLY_AST), (ast.parse(FRUIT), "a.py", "exec"), ("'apple'", "a.py", "eval")],
        ids=["for a tree", "of a tree", "an expression"],
    )
    def test_what_stays(self, applied: pc.Patcher, arguments: Any) -> None:
        made = compiled_by("garden", *arguments)
        if isinstance(made, ast.Module):
            assert ast.dump(made) == ast.dump(ast.parse(FRUIT))
        else:
            assert "@" not in "".join(made.co_names)

    def test_of_somebody_who_is_not_concerned(self, applied: pc.Patcher) -> None:
        assert found_in(compiled_by("orchard", FRUIT, "a.py", "exec")) == "apple"

    @pytest.mark.parametrize("runner", ["cProfile", "coverage.execfile", "trace"])
    def test_the_script_that_somebody_runs_is_the_program(self, applied: pc.Patcher, runner: str) -> None:
        assert found_in(compiled_by(runner, FRUIT, "a.py", "exec", dont_inherit=True)) == "ripe apple"

    def test_features_are_those_of_the_caller(self, applied: pc.Patcher) -> None:
        source = f"def f(x: missing): pass\n{FRUIT}"
        space: dict[str, Any] = {"__name__": "garden", "source": source}
        call = "code = compile(source, 'a.py', 'exec', 0, {})"
        exec(builtins.compile("from __future__ import annotations\n" + call.format(False), "b.py", "exec"), space)
        assert found_in(space["code"]) == "ripe apple"
        exec(call.format(True), space)
        if sys.version_info < (3, 14):  # which evaluates annotations later
            with pytest.raises(NameError, match="missing"):
                found_in(space["code"])

    def test_errors_are_those_of_python(self, applied: pc.Patcher) -> None:
        with pytest.raises(SyntaxError) as error:
            compiled_by("garden", "'apple\n", "a.py", "exec")
        assert (error.value.filename, error.value.lineno) == ("a.py", 1)
        with pytest.raises(TypeError):
            compiled_by("garden", "'apple'")

    def test_rules_that_raise_fail_the_patch_only(self) -> None:
        rules = pc.Rules(raising, words="apple", concerns=here)
        with pc.Patcher([pc.Patch("fruit", [pc.Rewrite("*", rules)])], plugins=[]) as patcher:
            assert found_in(compiled_by("garden", FRUIT, "a.py", "exec")) == "apple"
            assert patcher.report()["fruit"].status == "failed"

    def test_functions_get_their_own_code_back(self) -> None:
        space: dict[str, Any] = {}
        with fruit_patcher():
            exec(compiled_by("garden", FRUIT, "a.py", "exec"), space)
            assert space["fruit"]() == "ripe apple"
        assert space["fruit"]() == "apple"
        with fruit_patcher():
            assert space["fruit"]() == "ripe apple"

    def test_functions_keep_the_edits_of_patches_that_stay(self) -> None:
        second = pc.Rules(edit, words="apple", concerns=here)
        space: dict[str, Any] = {}
        with fruit_patcher():
            with pc.Patcher([pc.Patch("second", [pc.Rewrite("*", second)])], plugins=[]):
                exec(compiled_by("garden", FRUIT, "a.py", "exec"), space)
                assert space["fruit"]() == "ripe ripe apple"
            assert space["fruit"]() == "ripe apple"

    def test_names_leave_the_builtins_with_the_last_code_that_uses_them(self) -> None:
        before = set(vars(builtins))
        space: dict[str, Any] = {}
        with fruit_patcher():
            compiled = compiled_by("garden", FRUIT, "a.py", "exec")
        exec(compiled, {}, space)
        assert space["fruit"]() == "ripe apple"
        del compiled
        space.clear()
        gc.collect()
        assert set(vars(builtins)) == before


def fruit_patcher(*patches: pc.Patch) -> pc.Patcher:
    return pc.Patcher([pc.Patch("fruit", [pc.Rewrite("*", RULES)]), *patches], plugins=[])


def passing_on(original: Any, *arguments: Any, **options: Any) -> Any:
    return original(*arguments, **options)


class TestPatchOfCompile:
    """``builtins.compile`` has a layer for each ``Rewrite``, with the rules of every other place."""

    def test_a_revert_gives_compile_back(self) -> None:
        python = builtins.compile
        with pc.Patcher([pc.Patch(name, [pc.Rewrite("*", RULES)]) for name in "ab"], plugins=[]):
            assert builtins.compile is not python
        assert builtins.compile is python

    @pytest.mark.parametrize("first", [0, 1])
    def test_patchers_revert_in_any_order(self, first: int) -> None:
        python = builtins.compile
        patchers = [pc.Patcher([pc.Patch(name, [pc.Rewrite("*", RULES)])], plugins=[]) for name in "ab"]
        for patcher in patchers:
            patcher.apply()
        patchers.pop(first).revert()
        assert found_in(compiled_by("garden", FRUIT, "a.py", "exec")) == "ripe apple"
        assert not patchers.pop().revert().notes
        assert builtins.compile is python

    def test_the_compile_that_other_code_puts_on_top_is_removed(self) -> None:
        python = builtins.compile
        patcher = fruit_patcher()
        patcher.apply()
        below = builtins.compile
        builtins.compile = functools.partial(passing_on, below)
        assert "builtins:compile" in str(patcher.report())
        notes = patcher.revert().notes
        assert builtins.compile is python
        assert [note for note in notes if note.startswith("builtins:compile: other code had put")]
        assert below("'apple'", "a.py", "eval").co_consts == ("apple",)

    @pytest.mark.parametrize("first", [0, 1])
    def test_a_patch_of_compile_stacks_with_it(self, first: int) -> None:
        python = builtins.compile
        wrap = pc.Patch("wrap", [pc.Wrap("builtins:compile", passing_on)])
        patchers = [fruit_patcher(), pc.Patcher([wrap], plugins=[])]
        with fruit_patcher(wrap) as together:
            assert together.report().patches[1].status == "applied"
        for patcher in (patchers[first], patchers[1 - first]):
            patcher.apply()
        assert found_in(compiled_by("garden", FRUIT, "a.py", "exec")) == ("ripe apple" if first else "apple")
        patchers.pop(first).revert()
        found = found_in(compiled_by("garden", FRUIT, "a.py", "exec"))
        assert found == ("apple" if first == 0 else "ripe apple")
        patchers.pop().revert()
        assert builtins.compile is python

    def test_names_that_hold_it_follow(self) -> None:
        python = builtins.compile
        module = sys.modules["compile_by_value"] = type(sys)("compile_by_value")
        module.compile = python  # type: ignore[attr-defined]
        try:
            with fruit_patcher():
                assert module.compile is builtins.compile
                module.later = builtins.compile  # type: ignore[attr-defined]
            assert module.compile is module.later is python
        finally:
            del sys.modules["compile_by_value"]

    def test_explain_shows_it(self) -> None:
        patcher = fruit_patcher()
        plan = patcher.plan()
        with patcher:
            explained = Explainer(patcher, plan, {}).target(Target.parse("builtins:compile").pin())
        assert [layer.patch for layer in explained.layers] == ["fruit"]
        assert [change.patch for change in explained.changes] == ["fruit"]


def test_a_module_in_an_archive(applied: pc.Patcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "crates.zip", "w") as archive:
        archive.writestr("fruit_in_archive.py", FRUIT)
    monkeypatch.syspath_prepend(str(tmp_path / "crates.zip"))
    assert importlib.import_module("fruit_in_archive").found == "ripe apple"
    del sys.modules["fruit_in_archive"]


class TestConsoles:
    def test_lines(self, applied: pc.Patcher) -> None:
        console = code.InteractiveInterpreter()
        console.runsource("def fruit():\n    return 'apple'\n", symbol="exec")
        console.runsource("found = fruit(), 'apple'")
        assert console.locals["found"] == ("ripe apple", "ripe apple")

    def test_trees_of_cells_whose_text_is_known(self, applied: pc.Patcher, monkeypatch: pytest.MonkeyPatch) -> None:
        """IPython compiles each statement of a cell."""
        cell = "import os\nfound = 'apple'\n"
        monkeypatch.setitem(linecache.cache, "<cell>", (len(cell), None, cell.splitlines(True), "<cell>"))
        compiler = codeop.Compile()
        space: dict[str, Any] = {}
        for statement in ast.parse(cell, "<cell>").body:
            tree: Any = ast.Module([statement], [])
            exec(compiler(tree, "<cell>", "exec"), space)
        assert space["found"] == "ripe apple"


RULES_OF_A_PLUGIN = """
import ast
import patchcore as pc

def edit(tree, source):
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "apple"]
    for node in found:
        node.value = "pear"
    return [node.lineno for node in found]

def concerns(name, file):
    return file.endswith("look.py")

@pc.hookimpl
def register_patches():
    return [pc.Patch("fruit", [pc.Rewrite("*", pc.Rules(edit, words="apple", concerns=concerns))])]
"""
RUNNERS = [["cProfile", "-o", "profile"], ["pdb", "-c", "c", "-c", "q"], ["trace", "--count", "-C", "counts"]]


@pytest.mark.parametrize("runner", RUNNERS, ids=" ".join)
def test_a_script_that_a_program_of_the_library_runs(programs: Programs, runner: list[str]) -> None:
    programs.install({"fruit_rules.py": RULES_OF_A_PLUGIN}, "fruit", fruit="fruit_rules")
    programs.write({"look.py": "print('fruit', 'apple')\n"})
    assert "fruit pear" in programs.run(programs.patchcore, "-m", *runner, "look.py").stdout
