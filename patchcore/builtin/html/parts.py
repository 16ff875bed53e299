"""Parts that pages are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

from patchcore.builtin.html.elements import Content, Element, h
from patchcore.objects.printable import counted

__all__ = ["badge", "code", "command", "fold", "folded", "lines", "section", "table"]

#: How long a text may be, in characters, before most of it is folded away.
_LONG = 220
#: Where a long name may go on in the next line: after its dots, colons, slashes and underscores.
_JOINTS = re.compile(r"(?<=[.:/\\,=\-\[(])(?=\w)|(?<=[^\W_]_)(?=[^\W_])")
_SHORT = 16  # characters: shorter names stay in one line


def section(anchor: str, title: str, *content: Content) -> Element:
    """Return a section with its heading."""
    return h("section", h("h2", title, id=f"{anchor}-title"), *content, id=anchor, aria_labelledby=f"{anchor}-title")


def table(
    caption: Content,
    columns: Sequence[str],
    rows: Sequence[Sequence[Content]],
    *,
    numeric: int = 0,
    class_: Optional[str] = None,
) -> Element:
    """Return a table whose first column names the rows.

    Args:
        caption: says what it shows.
        columns: headings.
        rows: as many cells each.
        numeric: how many of the last columns are numbers.
        class_: ``facts`` for a table of names and values.
    """

    def kind(number: int) -> Optional[str]:
        return "number" if number >= len(columns) - numeric else None

    head = h("tr", [h("th", name, scope="col", class_=kind(i)) for i, name in enumerate(columns)])
    body = [
        h(
            "tr",
            h("th", first, scope="row", data_label=columns[0]),
            [h("td", cell, data_label=columns[i], class_=kind(i)) for i, cell in enumerate(others, 1)],
        )
        for first, *others in rows
    ]
    return h("table", h("caption", caption), h("thead", head), h("tbody", body), class_=class_)


def fold(
    summary: Content, *content: Content, open: bool = False, id: Optional[str] = None, class_: Optional[str] = None
) -> Element:
    """Return content that is folded away under its summary."""
    return h("details", h("summary", summary), *content, open=open, id=id, class_=class_)


def folded(text: str) -> Content:
    """Return a text, the most of a long one folded away."""
    if len(text) <= _LONG:
        return text
    size = counted(len(text), "character")
    return fold(f"{text[:_LONG]}\N{HORIZONTAL ELLIPSIS} ({size})", h("p", text, class_="full"))


def badge(text: str, kind: str = "") -> Element:
    """Return a word that stands out, in the colour of a status or another kind."""
    return h("span", text, class_=f"badge {kind or text}")


def code(text: str) -> Element:
    """Return a name or path, which goes on in the next line after a dot or the like, never inside a word."""
    if len(text) <= _SHORT:
        return h("code", text)
    return h("code", [(part, h("wbr")) for part in _JOINTS.split(text)[:-1]], _JOINTS.split(text)[-1])


def command(text: str) -> Element:
    """Return a command line to copy."""
    return h("p", h("code", text, class_="command"), class_="next")


def lines(text: str) -> Content:
    """Return a text with its line ends."""
    first, *others = text.split("\n")
    return [first, [(h("br"), other) for other in others]]
