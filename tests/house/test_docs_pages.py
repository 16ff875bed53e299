"""The documentation has every page in its index, and every public name in its reference."""

from __future__ import annotations

import re
from pathlib import Path

import patchcore

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Pages that the index reaches by another page of the same folder.
STEPS = "your-hardware/"


def test_reference_has_every_public_name() -> None:
    names = re.findall(r"^::: patchcore\.(\w+)$", (DOCS / "reference.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(set(patchcore.__all__) - {"__version__"})


def test_index_and_site_have_every_page() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    steps = (DOCS / STEPS / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", index))
    linked |= {STEPS + page for page in re.findall(r"\]\(([\w-]+\.md)\)", steps)}
    assert pages - linked == set()
    site = set(re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert pages - site == set()
