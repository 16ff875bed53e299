"""The page of ``patchcore report --html`` in a browser: texts of reports that are markup, large runs, its controls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_runs import LABELS, SHOWN, large_run, nasty_run
from views import View

from patchcore.builtin.report.html import make_page
from patchcore.builtin.report.reading import Process

Look = Callable[..., View]

PATCHES = "details.item"


def _written(folder: Path, page: str) -> Path:
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def nasty(tmp_path: Path, content: dict[str, Any]) -> Path:
    return _written(tmp_path, make_page(nasty_run(content)))


@pytest.mark.parametrize("scripts", [True, False], ids=["JavaScript", "no JavaScript"])
def test_nothing_is_loaded_run_or_complained_about(look: Look, nasty: Path, scripts: bool) -> None:
    view = look(nasty, width=1280, scripts=scripts)
    assert view.requests == [nasty.as_uri()]
    assert view.complaints == []
    assert view.page.title().startswith("patchcore: run ")
    assert view.evaluate("document.querySelectorAll('img, iframe, object, link').length") == 0
    assert view.evaluate("document.scripts.length") == 1


def test_texts_of_reports_are_shown_as_they_are(look: Look, nasty: Path) -> None:
    view = look(nasty, width=1280, scripts=False)
    view.open_all()
    shown = view.evaluate("document.body.textContent")
    visible = view.evaluate("document.body.innerText")
    for label in LABELS:
        assert f"{label} {SHOWN}" in shown
        # the title of a mark in the chart is shown when it is pointed at; marks are in capitals
        assert f"{label} {SHOWN}".upper() in visible.upper(), label


def test_every_section_is_visible_and_can_be_read_without_javascript(look: Look, nasty: Path) -> None:
    view = look(nasty, width=1280, scripts=False)
    sections = "[...document.querySelectorAll('main > section')]"
    heights = view.evaluate(f"{sections}.map(section => section.getBoundingClientRect().height)")
    assert len(heights) == 9
    assert min(heights) > 40
    assert view.evaluate("document.querySelectorAll('details:not([open])').length") > 0
    # a link into a folded part opens it
    view.page.goto(f"{nasty.as_uri()}#target-1")
    assert view.page.locator("#target-1").is_visible()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("folded", [True, False], ids=["as it is", "all open"])
def test_long_texts_stay_in_the_window(look: Look, nasty: Path, width: int, folded: bool) -> None:
    view = look(nasty, width=width)
    if not folded:
        view.open_all()
    assert view.elements_outside() == []


def test_a_large_run_loads_and_fits_a_narrow_screen(look: Look, tmp_path: Path, content: dict[str, Any]) -> None:
    view = look(_written(tmp_path, make_page(large_run(content))), width=390, scripts=False)
    assert view.complaints == []
    assert view.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture
def searchable(tmp_path: Path, content: dict[str, Any]) -> Path:
    """The page of a run with a patch that is applied and one that is skipped."""
    content["patches"][1].update(status="skipped", reason="it does not fit")
    return _written(tmp_path, make_page([Process(content)]))


def test_what_is_searched_is_found_and_the_rest_hidden(look: Look, searchable: Path) -> None:
    view = look(searchable, width=1280)
    view.open_all()
    view.page.fill("#search", "shop.PRICE")
    assert [text.partition("shop-npu")[0] for text in view.texts(PATCHES)] == ["applied shop.price "]
    assert not view.page.locator("#environment").is_visible()
    view.page.fill("#search", "")
    assert view.page.locator("#environment").is_visible()


def test_what_was_skipped_is_hidden_until_it_is_asked_for(look: Look, searchable: Path) -> None:
    view = look(searchable, width=1280)
    view.open_all()
    assert not any("shop.label" in text for text in view.texts(PATCHES))
    view.press_tab_until("[type=checkbox]")
    view.page.keyboard.press("Space")
    assert any("shop.label" in text for text in view.texts(PATCHES))


def test_a_link_to_what_is_hidden_shows_it(look: Look, searchable: Path) -> None:
    view = look(searchable, width=1280)
    view.page.click(".tallies .skipped a")
    view.page.wait_for_selector("#patches-skipped", state="visible", timeout=10_000)


def test_a_command_is_copied(look: Look, tmp_path: Path, content: dict[str, Any]) -> None:
    content["patches"][0].update(status="failed", reason="no")
    view = look(_written(tmp_path, make_page([Process(content)])), width=1280)
    view.press_tab_until(".copy")
    view.page.keyboard.press("Enter")
    view.page.wait_for_selector(".copy:text('Copied')", timeout=10_000)


#: Words of names that are on two lines: where the browser broke one inside.
BROKEN = """(() => {
  const broken = [];
  for (const element of document.querySelectorAll('code')) {
    for (const node of element.childNodes) {
      if (node.nodeType !== 3 || !/^[\\w]+\\W?$/.test(node.data)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(node.data);
    }
  }
  return broken;
})()"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_name_is_broken_inside_a_word(look: Look, tmp_path: Path, content: dict[str, Any], width: int) -> None:
    view = look(_written(tmp_path, make_page([Process(content)])), width=width)
    view.open_all()
    assert view.evaluate(BROKEN) == []


def test_a_line_of_the_program_is_found_by_its_name_and_by_its_path(
    look: Look, tmp_path: Path, content: dict[str, Any]
) -> None:
    rows = [{"file": "/work/train.py", "line": line, "cuda": "cuda", "count": 1} for line in (6, 62)]
    content["sections"] = [{"title": "moved", "lines": [], "mark": "", "counts": "", "data": rows}]
    view = look(_written(tmp_path, make_page([Process(content)])), width=1280)
    for text in ("train.py:62", "/work/train.py:62"):
        view.page.fill("#search", text)
        assert [row.partition("cuda")[0] for row in view.texts("tbody tr")] == ["train.py:62"]


def test_a_search_that_finds_nothing_says_what_is_hidden(look: Look, searchable: Path) -> None:
    view = look(searchable, width=1280)
    assert view.texts(".nothing") == []
    view.page.fill("#search", "no such word")
    assert view.texts(".nothing") == ["Nothing is found for “no such word”."]
    view.page.fill("#search", "shop.label skipped")
    assert "clear “hide skipped”" in view.texts(".nothing")[0]
    view.page.fill("#search", "")
    assert view.texts(".nothing") == []
