"""The page on a stack that patches itself prints what it shows: audited, adopted, compared, and edited."""

from __future__ import annotations

import os
import shutil

import pytest
from shell import ROOT, Shell, inherited_path, walk

pytest.importorskip("torch")
pytest.importorskip("patchcore_torch")

EXAMPLE = ROOT / "examples" / "adopted_stack"
PAGE = ROOT / "docs" / "adopting.md"


def test_page_prints_what_it_shows(shell: Shell) -> None:
    shell.folder = shell.home / "stack"
    shutil.copytree(EXAMPLE, shell.folder, ignore=shutil.ignore_patterns("__pycache__"))
    shell.environment["PYTHONPATH"] = os.pathsep.join(map(str, inherited_path()))
    walk(shell, PAGE)


def test_page_shows_the_code_of_the_edited_plugin() -> None:
    code = (EXAMPLE / "edited" / "stack_npu" / "plugin.py").read_text(encoding="utf-8")
    shown = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    for part in shown.split("\n\n\n"):
        assert part.strip() in code


def test_page_shows_the_code_of_the_plugin_of_single_objects() -> None:
    code = (EXAMPLE / "edited" / "stack_npu" / "narrowing.py").read_text(encoding="utf-8")
    shown = PAGE.read_text(encoding="utf-8").partition("## Single objects")[2].partition("```python\n")[2]
    for part in shown.partition("```")[0].split("\n\n\n"):
        assert part.strip() in code
