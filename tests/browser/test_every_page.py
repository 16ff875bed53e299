"""The page of each command that writes one: readable, quiet, searchable, usable by the keyboard, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from views import View

#: What is searched for on each page: names that some of its rows have.
SEARCHES = {"report": "wrong_name", "migrate": "own_cuda", "ops": "bessel_J0", "graph explain": "SORT"}
#: What the search shows or hides: outermost rows, patches, targets.
ITEMS = "main tbody tr, main details.item, main .targets > li"
ITEMS = f":is({ITEMS}):not(:is({ITEMS}) *)"

Look = Callable[..., View]
Pages = dict[str, Path]


@pytest.fixture(params=SEARCHES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_quiet_fits_and_can_be_read(look: Look, pages: Pages, name: str, width: int, dark: bool) -> None:
    view = look(pages[name], width=width, dark=dark)
    assert view.elements_outside() == []
    view.open_all()
    assert view.elements_outside() == []
    assert view.faint_texts() == {}
    assert (view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 27)") is dark
    assert view.faults() == []
    assert view.requests == [view.where]
    assert view.complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_keyboard_reaches_what_can_be_used_and_it_shows(look: Look, pages: Pages, name: str, width: int) -> None:
    view = look(pages[name], width=width)
    assert view.faults_of_focus() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_stop_of_the_keyboard_skips_what_is_above_the_report(
    look: Look, pages: Pages, name: str, width: int
) -> None:
    view = look(pages[name], width=width)
    view.page.keyboard.press("Tab")
    assert view.texts(":focus") == ["Skip to the report"]
    view.page.keyboard.press("Enter")
    view.page.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.closest('main') !== null")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_search_by_the_keyboard_narrows_the_page(look: Look, pages: Pages, name: str, width: int) -> None:
    view = look(pages[name], width=width)
    everything = view.texts(ITEMS)
    view.press_tab_until("#search")
    view.page.keyboard.type(SEARCHES[name])
    shown = view.texts(ITEMS)
    assert shown
    assert len(shown) < len(everything)
    assert all(SEARCHES[name].lower() in text.lower() for text in shown)
    assert view.elements_outside() == []
    view.page.keyboard.press("Control+A")
    view.page.keyboard.press("Delete")
    assert view.texts(ITEMS) == everything


def test_a_search_that_finds_nothing_says_so(look: Look, pages: Pages, name: str) -> None:
    view = look(pages[name], width=390)
    view.page.fill("#search", "no such thing")
    assert view.texts(ITEMS) == []
    (said,) = view.texts(".nothing")
    assert "no such thing" in said
    assert view.elements_outside() == []
    assert view.faint_texts() == {}
