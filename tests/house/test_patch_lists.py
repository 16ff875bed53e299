"""docs/patches.md says what the plugins declare."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def patch_lists(import_tool: Callable[[str], ModuleType]) -> ModuleType:
    return import_tool("patch_lists")


def test_the_page_is_what_the_declarations_say(patch_lists: ModuleType) -> None:
    page = patch_lists.PAGE.read_text(encoding="utf-8")
    assert patch_lists.rendered(page) == page, "out of date: run python tools/patch_lists.py"


def test_every_source_is_a_file(patch_lists: ModuleType) -> None:
    page = patch_lists.PAGE.read_text(encoding="utf-8")
    links = re.findall(r"\]\((\.\./[^)]+)\)", page)
    assert links
    assert all((patch_lists.PAGE.parent / link).is_file() for link in links)
