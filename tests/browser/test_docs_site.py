"""The documentation site in a browser: every page loads and fits a narrow screen, search and keyboard work."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from views import View

ROOT = Path(__file__).resolve().parents[2]

#: Of each kind of page one: the home, sessions, code, tables, pictures, Chinese.
PAGES = ["index", "quickstart", "verifying", "bisect", "ops", "performance", "zh/quickstart"]

Look = Callable[..., View]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """The address of the site, served from this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_page_is_quiet_and_fits_a_narrow_screen(look: Look, folder: Path, site: str) -> None:
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    assert len(pages) > 50
    view = look(f"{site}/{pages[0]}", width=390)
    wide = {}
    for page in pages:
        view.page.goto(f"{site}/{page}")
        outside = view.elements_outside()
        if outside:
            wide[page] = outside
    assert wide == {}
    assert [url for url in view.requests if not url.startswith(f"{site}/")] == []
    assert view.complaints == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read(look: Look, site: str, page: str, dark: bool) -> None:
    view = look(f"{site}/{page}.html", width=1280, dark=dark)
    assert view.elements_outside() == []
    assert (view.evaluate("document.body.dataset.mdColorScheme") == "slate") is dark
    assert view.faint_texts() == {}
    assert view.faults() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_keyboard_reaches_whatever_can_be_used_and_it_shows(look: Look, site: str, width: int) -> None:
    view = look(f"{site}/quickstart.html", width=width)
    assert view.faults_of_focus() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(("text", "page"), [("--emulate-npu", "emulator.html"), ("补丁", "zh/writing-patches.html")])
def test_a_search_by_the_keyboard_finds_pages(look: Look, site: str, text: str, page: str, width: int) -> None:
    view = look(f"{site}/index.html", width=width)
    view.page.keyboard.press("/")
    view.page.keyboard.insert_text(text)
    view.page.wait_for_selector(f".md-search-result__link[href*='{page}']", state="visible", timeout=20_000)
    assert view.faint_texts() == {}
    assert view.elements_outside() == []


def test_the_search_works_in_pages_that_are_opened_as_files(look: Look, folder: Path) -> None:
    view = look(folder / "index.html", width=1280)
    view.page.keyboard.press("/")
    view.page.keyboard.insert_text("--emulate-npu")
    view.page.wait_for_selector(".md-search-result__link[href*='emulator.html']", state="visible", timeout=20_000)


def test_on_a_narrow_screen_the_keyboard_opens_the_menu(look: Look, site: str) -> None:
    view = look(f"{site}/quickstart.html", width=390)
    assert not view.page.locator(".md-sidebar--primary").is_visible()
    view.press_tab_until("[for=__drawer]")
    view.page.keyboard.press("Enter")
    view.page.wait_for_selector(".md-sidebar--primary", state="visible", timeout=10_000)
