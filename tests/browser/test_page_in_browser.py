"""The page of ``patchcore report --html`` in a real browser: ``nox -s browser``, skipped where there is none."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from devtools import PROGRAMS, Browser, find_browser
from page_runs import LABELS, SHOWN, a_report, large_run, nasty_run
from reports import SHOP, Reports

from patchcore.builtin.page.html import make_page
from patchcore.builtin.page.merge import Process

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason=f"no browser on PATH: none of {', '.join(PROGRAMS)}")

OPEN_ALL = "document.querySelectorAll('details').forEach(details => details.open = true)"

#: Elements whose text is hard to read on what is behind it: contrast below 4.5 to 1 (WCAG 2.2, 1.4.3).
FAINT = """(() => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const back = channels(getComputedStyle(element).backgroundColor);
      if (back.length < 4 || back[3] > 0) return back;
    }
    return [255, 255, 255];
  };
  const faint = {};
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || element.closest('svg')) continue;
    const [a, b] = [channels(getComputedStyle(element).color), behind(element)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint[`${element.tagName}.${element.className}`] = contrast;
  }
  return faint;
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        opened = Browser(PROGRAM, Path(profile))
        yield opened
        opened.close()


@pytest.fixture
def content(tmp_path: Path, make_package: Any) -> dict[str, Any]:
    make_package(SHOP)
    return a_report(Reports(tmp_path / "reports"))


@pytest.fixture
def nasty(tmp_path: Path, content: dict[str, Any]) -> Path:
    return _written(tmp_path, make_page(nasty_run(content)))


def _written(folder: Path, page: str) -> Path:
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.mark.parametrize("scripts", [True, False], ids=["JavaScript", "no JavaScript"])
def test_nothing_is_loaded_run_or_complained_about(browser: Browser, nasty: Path, scripts: bool) -> None:
    browser.open(nasty, width=1400, scripts=scripts)
    assert browser.requests == [nasty.as_uri()]
    assert browser.complaints == []
    assert browser.evaluate("document.title").startswith("patchcore: run ")
    assert browser.evaluate("document.querySelectorAll('img, iframe, object, link').length") == 0
    assert browser.evaluate("document.scripts.length") == 1


def test_texts_of_reports_are_shown_as_they_are(browser: Browser, nasty: Path) -> None:
    browser.open(nasty, width=1400, scripts=False)
    browser.evaluate(OPEN_ALL)
    shown = browser.evaluate("document.body.textContent")
    visible = browser.evaluate("document.body.innerText")
    for label in LABELS:
        assert f"{label} {SHOWN}" in shown
        # the title of a mark in the chart is shown when it is pointed at; marks are in capitals
        assert f"{label} {SHOWN}".upper() in visible.upper(), label


def test_every_section_is_visible_and_can_be_read_without_javascript(browser: Browser, nasty: Path) -> None:
    browser.open(nasty, width=1400, scripts=False)
    sections = "[...document.querySelectorAll('main > section')]"
    heights = browser.evaluate(f"{sections}.map(section => section.getBoundingClientRect().height)")
    assert len(heights) == 9
    assert min(heights) > 40
    assert browser.evaluate("document.querySelectorAll('details:not([open])').length") > 0
    # a link into a folded part opens it
    uri = f"{nasty.as_uri()}#target-1"
    browser.call("Page.navigate", url=uri)
    assert browser.evaluate("document.querySelector('#target-1').getBoundingClientRect().height") > 0


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("folded", [True, False], ids=["as it is", "all open"])
def test_nothing_sticks_out_of_the_window(browser: Browser, nasty: Path, width: int, folded: bool) -> None:
    browser.open(nasty, width=width)
    if not folded:
        browser.evaluate(OPEN_ALL)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    outside = (
        f"[...document.querySelectorAll('main *')].filter(e => !e.closest('pre') && !e.closest('svg') && "
        f"e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 200))"
    )
    assert browser.evaluate(outside) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser: Browser, nasty: Path, dark: bool) -> None:
    browser.open(nasty, width=1400, dark=dark)
    browser.evaluate(OPEN_ALL)
    assert browser.evaluate(FAINT) == {}
    back = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(18, 21, 27)") is dark


def test_a_large_run_loads_and_fits_a_narrow_screen(browser: Browser, tmp_path: Path, content: dict[str, Any]) -> None:
    page = _written(tmp_path, make_page(large_run(content)))
    browser.open(page, width=400, scripts=False)
    assert browser.complaints == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400


TYPE = """text => { const search = document.querySelector('#search'); search.value = text;
  search.dispatchEvent(new Event('input')); }"""
ROWS = "[...document.querySelectorAll('{}')].filter(e => e.getClientRects().length).map(e => e.textContent)"
PATCHES = ROWS.format("details.item")


def type_in(browser: Browser, text: str) -> None:
    browser.evaluate(f"({TYPE})({text!r})")


@pytest.fixture
def searchable(tmp_path: Path, content: dict[str, Any]) -> Path:
    """The page of a run with a patch that is applied and one that is skipped."""
    content["patches"][1].update(status="skipped", reason="it does not fit")
    return _written(tmp_path, make_page([Process(content)]))


def test_what_is_searched_is_found_and_the_rest_hidden(browser: Browser, searchable: Path) -> None:
    browser.open(searchable, width=1280)
    browser.evaluate(OPEN_ALL)
    type_in(browser, "shop.PRICE")
    assert [text.partition("shop-npu")[0] for text in browser.evaluate(PATCHES)] == ["applied shop.price "]
    sections = "[...document.querySelectorAll('main > section')].filter(e => !e.hidden).map(e => e.id)"
    assert "environment" not in browser.evaluate(sections)
    type_in(browser, "")
    assert "environment" in browser.evaluate(sections)


def test_what_was_skipped_is_hidden_until_it_is_asked_for(browser: Browser, searchable: Path) -> None:
    browser.open(searchable, width=1280)
    browser.evaluate(OPEN_ALL)
    assert not any("shop.label" in text for text in browser.evaluate(PATCHES))
    browser.evaluate("document.querySelector('.tools input[type=checkbox]').click()")
    assert any("shop.label" in text for text in browser.evaluate(PATCHES))


def test_a_link_to_what_is_hidden_shows_it(browser: Browser, searchable: Path) -> None:
    browser.open(searchable, width=1280)
    browser.evaluate("document.querySelector('.tallies .skipped a').click()")
    browser.evaluate("new Promise(done => setTimeout(done, 50))")
    assert browser.evaluate("document.querySelector('#patches-skipped').getClientRects().length") == 1


def test_a_command_is_copied(browser: Browser, tmp_path: Path, content: dict[str, Any]) -> None:
    content["patches"][0].update(status="failed", reason="no")
    browser.open(_written(tmp_path, make_page([Process(content)])), width=1280)
    browser.evaluate("document.querySelector('.copy').click()")
    time.sleep(0.2)
    assert browser.evaluate("document.querySelector('.copy').textContent") == "Copied"


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
def test_no_name_is_broken_inside_a_word(browser: Browser, tmp_path: Path, content: dict[str, Any], width: int) -> None:
    browser.open(_written(tmp_path, make_page([Process(content)])), width=width)
    browser.evaluate(OPEN_ALL)
    assert browser.evaluate(BROKEN) == []


def test_a_line_of_the_program_is_found_by_its_name_and_by_its_path(
    browser: Browser, tmp_path: Path, content: dict[str, Any]
) -> None:
    rows = [{"file": "/work/train.py", "line": line, "asked": "cuda", "count": 1} for line in (6, 62)]
    content["sections"] = [{"title": "moved", "lines": [], "mark": "", "counts": "", "data": rows}]
    browser.open(_written(tmp_path, make_page([Process(content)])), width=1280)
    for text in ("train.py:62", "/work/train.py:62"):
        type_in(browser, text)
        assert [row.partition("cuda")[0] for row in browser.evaluate(ROWS.format("tbody tr"))] == ["train.py:62"]


def test_a_search_that_finds_nothing_says_so(browser: Browser, searchable: Path) -> None:
    browser.open(searchable, width=1280)
    message = ROWS.format(".nothing")
    assert browser.evaluate(message) == []
    type_in(browser, "no such word")
    assert browser.evaluate(message) == ["Nothing is found for “no such word”."]
    type_in(browser, "shop.label skipped")
    assert "clear “hide skipped”" in browser.evaluate(message)[0]
    type_in(browser, "")
    assert browser.evaluate(message) == []
