"""A page around its sections: head, style, search, table of contents."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Optional

from patchcore.builtin.html.elements import Content, Element, h, render
from patchcore.builtin.html.parts import code
from patchcore.objects.printable import printable

__all__ = ["document", "header"]


def header(over: str, heading: str, *content: Content, good: Optional[bool] = None) -> Element:
    """Return the head of a page: what it is about, and the result.

    Args:
        over: which page this is.
        heading: the result in a few words.
        content: more about it.
        good: whether the result is good or bad, where it is either.
    """
    kind = None if good is None else "good" if good else "bad"
    return h("header", h("p", over, class_="over"), h("h1", heading, class_=kind), *content)


def document(title: str, head: Element, sections: Iterable[Optional[Element]], *, written_by: str) -> str:
    """Return a page, as HTML.

    It loads nothing. Its one script adds the search, and is the only one that a browser runs: whatever text the page
    has is escaped, and a script that got into it anyway would not have the right hash.

    Args:
        title: of the window.
        head: made by :func:`header`.
        sections: made by :func:`~patchcore.builtin.html.parts.section`; ``None`` is left out.
        written_by: the command that wrote the page.
    """
    shown = [section for section in sections if section is not None]
    style, script = h("style"), h("script")
    style.text, script.text = _text("style.css"), _text("page.js")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    top = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="color-scheme", content="light dark"),
        h("meta", http_equiv="Content-Security-Policy", content=policy),
        h("title", title),
        style,
    )
    first = f"#{shown[0].get('id')}" if shown else "#"
    body = h("body", h("a", "Skip to the report", href=first, class_="skip"), head, _contents(shown))
    body.append(h("main", shown))
    body.append(h("footer", h("p", "Written by ", code(written_by), ".")))
    body.append(script)
    return render(h("html", top, body, lang="en"))


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _contents(sections: Sequence[Element]) -> Element:
    entries = [h("li", h("a", printable(section[0].text or ""), href=f"#{section.get('id')}")) for section in sections]
    return h("nav", h("ul", entries), aria_label="Sections")
