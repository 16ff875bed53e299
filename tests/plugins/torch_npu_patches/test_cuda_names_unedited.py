"""Which comparisons with ``"cuda"`` are found in code that was not edited; without torch."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import patchcore as pc
from torch_npu_patches.cuda_names import lines, reporting, unedited
from torch_npu_patches.cuda_names.patches import CUDA_NAMES


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unedited, "_kept", {})
    monkeypatch.setattr(unedited, "is_on", True)
    monkeypatch.setattr(lines, "LINES", {})


def run(source: str, file: str = "<string>", mode: str = "exec") -> list[unedited.Comparison]:
    """Return what is found in a code that Python announces."""
    unedited._audit("exec", (compile(source, file, mode, dont_inherit=True),))
    return unedited.comparisons()


@pytest.mark.parametrize(
    "expression",
    [
        "d == 'cuda'",
        "'cuda' == d",
        "d.type != 'cuda:0'",
        "'cuda' != d.x.type",
        "d in ('cuda', 'cpu')",
        "d not in {'cuda'}",
        "'cuda' in d.name",
        "d.startswith('cuda')",
        "str(d).startswith(('cuda:', 'xpu'))",
        "d == 'cu' 'da'",
    ],
)
def test_comparisons(expression: str) -> None:
    found = run(f"if 1:\n  x = (\n    {expression})\ndef f(d):\n    return {expression}")
    assert [(each.line, each.function) for each in found] == [(3, "<module>"), (5, "f")]
    assert [each.file for each in found] == ["<string>"] * 2
    assert [(each.line, each.function) for each in run(expression, "<e>", "eval")][2:] == [(1, "<module>")]


@pytest.mark.parametrize(
    "source",
    [
        "d.to('cuda')",
        "x = {'cuda': 1}",
        "len('cuda') == 4",
        "d == 'cudart'",
        "d < 'cuda'",
        "f(d, 'cuda') in d",
    ],
)
def test_other_uses(source: str) -> None:
    assert run(source) == []


@pytest.mark.parametrize("file", ["/venv/lib/site-packages/x.py", ast.__file__], ids=["installed", "of Python"])
def test_of_the_program_only(file: str) -> None:
    assert run("d == 'cuda'", file) == []


@pytest.mark.parametrize(("file", "found"), [("<generated>", 0), ("here", 1)], ids=["a text", "a file"])
def test_what_an_installed_package_runs(tmp_path: Path, file: str, found: int) -> None:
    (tmp_path / "here").touch()
    code = compile("d == 'cuda'", str(tmp_path / file), "exec", dont_inherit=True)
    package = compile("audit('exec', (code,))", "/venv/lib/site-packages/x.py", "exec")
    exec(package, {"audit": unedited._audit, "code": code})
    assert len(unedited.comparisons()) == found


def test_other_events_and_other_codes() -> None:
    unedited._audit("compile", ("d == 'cuda'", "x"))
    unedited._audit("exec", (None,))
    assert unedited.comparisons() == []


def test_nothing_is_kept_while_the_patch_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unedited, "is_on", False)
    (change,) = [each for each in CUDA_NAMES[0].changes if str(each.target).endswith("unedited:is_on")]
    assert run("d == 'cuda'") == []
    with pc.Patcher([pc.Patch("names", [change])], plugins=[]):
        assert len(run("d == 'cuda'")) == 1
    assert len(run("d != 'cuda'")) == 1


def test_lines_that_are_known_are_not_missed() -> None:
    lines.keep("<string>", [(1, "a == b == 'cuda'", "", "it is a chain of comparisons", False)])
    assert [each.line for each in run("a == b == 'cuda'\nd == 'cuda'")] == [2]


def test_edited_code_is_not_kept() -> None:
    code = compile("def f(d): return edited(1, d, 'cuda') or d in ['cuda']", "<string>", "exec", dont_inherit=True)
    constants: list[Any] = [
        each.replace(co_names=tuple(name.replace("edited", "_@edited") for name in each.co_names))
        if hasattr(each, "co_names")
        else each
        for each in code.co_consts
    ]
    unedited._audit("exec", (code.replace(co_consts=tuple(constants)),))
    assert unedited.comparisons() == []


def test_the_report() -> None:
    run("d == 'cuda'")
    (section,) = reporting.sections()
    assert section.title == 'Comparisons with "cuda" that could not be edited'
    (text,) = section.lines
    assert text.startswith("<string>:1, in <module>, run by ")
    assert text.endswith(": compares with 'cuda', not edited")
    assert list(reporting.describe()) == ['1 comparison with "cuda" could not be edited']
