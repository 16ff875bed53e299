"""Pages that commands make of their tables."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore as pc
from patchcore.builtin.html import TablesPage, TextTable


def page_of(text: str) -> TablesPage:
    table = TextTable(text, (text, text), [(text, text)])
    return TablesPage(text, text, text, True, [(text, text)], [text], [table], [text], {})


def tags_of(page: str) -> list[str]:
    """The tags of a page, but for those that depend on the length and the lines of its texts."""
    tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("br", "wbr"):
                tags.append(tag)

    Reader().feed(page)
    return tags


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    assert tags_of(page_of(text).render()) == tags_of(page_of("x").render())


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("short.name", ["short.name"]),
        (
            "mmcv.ops.deform_conv:DeformConv2dFunction.apply",
            ["mmcv.", "ops.", "deform_", "conv:", "DeformConv2dFunction.", "apply"],
        ),
        ("torch:amp.GradScaler.__init__", ["torch:", "amp.", "GradScaler.", "__init__"]),
        ("/data/my-model/train.py:120", ["/", "data/", "my-", "model/", "train.", "py:", "120"]),
    ],
)
def test_a_name_goes_on_in_the_next_line_between_its_words_only(name: str, parts: list[str]) -> None:
    page = TablesPage("c", "t", "s", tables=[TextTable("T", ("A",), [(name,)])])
    written = re.findall(r"<code>(.*?)</code>", page.render())[0]
    assert written.split("<wbr>") == parts


def test_a_word_that_says_how_it_went_stands_out() -> None:
    page = TablesPage(
        "c", "t", "s", tables=[TextTable("T", ("A", "B"), [("missing", "missing")])], kinds={"missing": "failed"}
    )
    assert page.render().count('<span class="badge failed">missing</span>') == 1  # the first column names the row


def test_commands_can_be_copied() -> None:
    page = TablesPage("c", "t", "s", next_commands=["patchcore run --emulate-npu train.py"])
    assert '<code class="command">patchcore run --emulate-npu train.py</code>' in page.render()


def test_without_jinja_a_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(pc.SettingsError) as e:
        TablesPage("patchcore ops --html", "t", "s").render()
    line = pc.install_command("patchcore[html]")
    assert str(e.value) == f"patchcore ops --html needs Jinja2, which is not installed: {line}"
