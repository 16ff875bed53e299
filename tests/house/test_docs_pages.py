"""The documentation has every page in its index, and every public name in its reference."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import patchcore

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_reference_has_every_public_name() -> None:
    names = re.findall(r"^::: patchcore\.(\w+)$", (DOCS / "reference.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(set(patchcore.__all__) - {"__version__"})


def linked_from(folder: str) -> set[str]:
    """Return the pages to which the page of a folder of docs/ links, as paths in docs/."""
    index = (DOCS / folder / "README.md").read_text(encoding="utf-8")
    return {posixpath.normpath(posixpath.join(folder, page)) for page in re.findall(r"\]\(([\w./-]+\.md)", index)}


def test_index_and_site_have_every_page() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    linked = linked_from("")
    folders = [posixpath.dirname(page) for page in linked if page.endswith("/README.md")]
    linked = linked.union(*map(linked_from, folders))
    assert pages - linked == set()
    site = set(re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert pages - site == set()
