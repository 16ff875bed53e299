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
def patch_tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delitem(sys.modules, "patch_tables", raising=False)
    return importlib.import_module("patch_tables")


def test_the_page_is_what_the_declarations_say(patch_tables: ModuleType) -> None:
    page = patch_tables.PAGE.read_text(encoding="utf-8")
    assert patch_tables.rendered(page) == page, "out of date: run python tools/patch_tables.py"


def test_every_patch_of_every_package_has_a_row(patch_tables: ModuleType) -> None:
    page = patch_tables.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*([\w.]+)\*\*", page, re.MULTILINE)
    plugins = [importlib.import_module(f"{package}.plugin") for package in patch_tables.PACKAGES]
    assert rows == [patch.name for plugin in plugins for patch in plugin.PATCHES]


def test_every_source_is_a_file(patch_tables: ModuleType) -> None:
    page = patch_tables.PAGE.read_text(encoding="utf-8")
    links = re.findall(r"\]\((\.\./[^)]+)\)", page)
    assert links
    assert all((patch_tables.PAGE.parent / link).is_file() for link in links)
