"""docs/patches.md says what the plugins declare."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def patch_lists(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delitem(sys.modules, "patch_lists", raising=False)
    return importlib.import_module("patch_lists")


def test_the_page_is_what_the_declarations_say(patch_lists: ModuleType) -> None:
    page = patch_lists.PAGE.read_text(encoding="utf-8")
    assert patch_lists.rendered(page) == page, "out of date: run python tools/patch_lists.py"


def test_every_patch_of_every_package_has_a_section_with_all_its_targets(patch_lists: ModuleType) -> None:
    page = patch_lists.PAGE.read_text(encoding="utf-8")
    found = [section.partition("\n") for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]]
    listed = {name: {*re.findall(r"^- [\w-]+ `(.+)`$", text, re.MULTILINE)} for name, _, text in found}
    plugins = [importlib.import_module(f"{package}.plugin") for package in patch_lists.PACKAGES]
    patches = [patch for plugin in plugins for patch in plugin.PATCHES]
    assert [name for name, _, _ in found] == [patch.name for patch in patches]
    assert listed == {patch.name: {str(change.target) for change in patch.changes} for patch in patches}


def test_every_source_is_a_file(patch_lists: ModuleType) -> None:
    page = patch_lists.PAGE.read_text(encoding="utf-8")
    links = re.findall(r"\]\((\.\./[^)]+)\)", page)
    assert links
    assert all((patch_lists.PAGE.parent / link).is_file() for link in links)
