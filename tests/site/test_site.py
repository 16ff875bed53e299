"""The documentation site that ``nox -s docs`` has built: what can be said of it without a browser."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Optional
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "site"
#: Absolute links on purpose: a server shows this page in any folder.
NOT_FOUND = SITE / "404.html"
PAGES = sorted(SITE.rglob("*.html"))

_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


class Page(HTMLParser):
    """What the tests ask of a page.

    Args:
        path: the file of the page.

    Attributes:
        languages: the ``lang`` of ``<html>``, and of every other element that has one.
        addresses: what the page loads or links to.
        numbers: the numbers of the items of ordered lists, as a browser counts them.
        codes: the text of code within a line.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.languages: list[str] = []
        self.addresses: list[str] = []
        self.numbers: list[int] = []
        self.codes: list[str] = []
        self._lists: list[Optional[int]] = []
        self._in_article = self._in_code = self._in_block = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.languages += [found["lang"]] if "lang" in found else []
        self.addresses += [found[name] for name in ("href", "src") if name in found]
        if tag == "article":
            self._in_article = True
        elif tag in ("ol", "ul"):
            self._lists.append(int(found.get("start", 1)) if tag == "ol" else None)
        elif tag == "li" and self._in_article and self._lists[-1] is not None:
            self.numbers.append(self._lists[-1])
            self._lists[-1] += 1
        elif tag == "pre":
            self._in_block = True
        elif tag == "code" and not self._in_block:
            self._in_code = True
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._in_article = False
        elif tag in ("ol", "ul"):
            self._lists.pop()
        elif tag == "pre":
            self._in_block = False
        elif tag == "code":
            self._in_code = False

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.codes[-1] += data


def source(page: Path) -> Optional[Path]:
    """Return the Markdown file of a page, ``None`` for a page of the theme."""
    path = page.relative_to(SITE).with_suffix(".md")
    if path.name == "index.md":
        path = path.with_name("README.md")
    file = ROOT / path.relative_to("repository") if path.parts[0] == "repository" else DOCS / path
    return file if file.is_file() else None


def address(page: Path) -> str:
    return page.relative_to(SITE).as_posix()


@pytest.fixture(scope="module")
def index() -> dict[str, str]:
    """Return the text of each section that the search knows, by its address."""
    found = json.loads((SITE / "search" / "search_index.json").read_text(encoding="utf-8"))
    return {entry["location"]: html.unescape(re.sub("<[^>]+>", "", entry["text"])) for entry in found["docs"]}


def test_every_page_of_the_docs_is_on_the_site() -> None:
    assert {*DOCS.rglob("*.md")} <= {source(page) for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=address)
def test_a_page_says_in_which_language_it_is(page: Path) -> None:
    is_chinese = "zh" in page.parts or page.name.endswith(".zh-CN.html")
    assert Page(page).languages[0] == ("zh" if is_chinese else "en")


@pytest.mark.parametrize("page", [page for page in PAGES if page != NOT_FOUND], ids=address)
def test_everything_that_a_page_needs_or_links_to_is_a_file(page: Path) -> None:
    """So the pages can be opened as files. A link to a folder would show a list of files."""
    for target in Page(page).addresses:
        path = unquote(target.partition("#")[0].partition("?")[0])
        if path and not re.match("[a-z]+:", path):
            assert (page.parent / path).is_file(), target


@pytest.mark.parametrize("page", [page for page in PAGES if page != NOT_FOUND], ids=address)
def test_nothing_is_loaded_from_elsewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:|//)[^>]*>", text) == []
    assert re.findall(r"<link[^>]* rel=\"?stylesheet[^>]* href=\"?(?:https?:|//)[^>]*>", text) == []


@pytest.mark.parametrize("page", [page for page in PAGES if source(page)], ids=address)
def test_numbers_of_lists_are_those_of_the_text(page: Path) -> None:
    file = source(page)
    assert file is not None
    text = _FENCED.sub("", file.read_text(encoding="utf-8"))
    assert Page(page).numbers == [int(number) for number in re.findall(r"^ *(\d+)\. ", text, re.MULTILINE)]


def test_the_home_says_in_a_paragraph_what_this_is() -> None:
    text = (SITE / "index.html").read_text(encoding="utf-8")
    found = re.search(r"<h1[^>]*>patchcore<.*?</h1>\s*<p>(.*?)</p>", text, re.DOTALL)
    assert found
    said = re.sub("<[^>]+>", "", found[1])
    assert len(said.splitlines()) == 5
    assert len(said) < 450  # five lines on a screen of 1280 pixels
    for word in ("CUDA", "Ascend NPUs", "patch", "--emulate-npu", "quickstart"):
        assert word in said


def test_every_target_of_a_patch_stands_whole_on_its_page() -> None:
    targets = re.findall(r"^- [\w-]+ `(.+)`$", (DOCS / "patches.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(targets) > 300
    codes = Page(SITE / "patches.html").codes
    assert [code for code in codes if code in {*targets}] == targets


class TestSearch:
    @pytest.mark.parametrize(
        ("text", "page"),
        [
            ("--emulate-npu", "emulator.html"),
            ("mx_driving.patcher", "mx-driving-patcher.html"),
            ("补丁", "zh/writing-patches.html"),
            ("撤销", "zh/writing-patches.html"),
            ("回滚", "zh/concepts.html"),
        ],
    )
    def test_the_index_has_text_as_it_is_written(self, index: dict[str, str], text: str, page: str) -> None:
        assert any(text in content for place, content in index.items() if place.partition("#")[0] == page)

    def test_every_page_is_in_the_index(self, index: dict[str, str]) -> None:
        known = {place.partition("#")[0] for place in index}
        assert known == {address(page) for page in PAGES if source(page)}

    def test_links_to_the_other_language_are_not_in_the_index(self, index: dict[str, str]) -> None:
        assert not index["zh/quickstart.html"].lstrip().startswith("English")

    def test_pages_that_are_opened_as_files_have_the_same_index_as_a_script(self) -> None:
        as_data = (SITE / "search" / "search_index.json").read_text(encoding="utf-8")
        assert (SITE / "search" / "search_index.js").read_text(encoding="utf-8") == f"var __index = {as_data}"

    def test_the_search_is_loaded_before_the_theme_that_asks_it(self) -> None:
        text = (SITE / "zh" / "quickstart.html").read_text(encoding="utf-8")
        assert text.index('src="../assets/search.js"') < text.index("assets/javascripts/bundle.")
