"""Parts that several sections of a page are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from patchcore.builtin.page.html.elements import Content, Element, h
from patchcore.builtin.page.html.model import Run, Standing

__all__ = ["Links", "badge", "code", "fold", "folded", "place", "section", "standings", "table"]

#: How long a text may be, in characters, before most of it is folded away.
_LONG = 220


class Links:
    """Names of patches and targets that have a place on the page, and where that is.

    Args:
        run: what the page shows.
    """

    def __init__(self, run: Run) -> None:
        self._patches = {patch.name: f"patch-{number}" for number, patch in enumerate(run.patches, 1)}
        self._targets = {target.target: f"target-{number}" for number, target in enumerate(run.targets, 1)}

    def id(self, name: str) -> Optional[str]:
        """Return the id of the place for a patch or target, ``None`` where it has none."""
        return self._patches.get(name) or self._targets.get(name)

    def code(self, name: str) -> Element:
        """Return the name of a patch, target or anything else, as a link where it has a place."""
        anchor = self.id(name)
        return code(name) if anchor is None else h("a", code(name), href=f"#{anchor}")

    def codes(self, names: Sequence[str]) -> Sequence[Content]:
        """Return several names, the many after the first few folded away."""
        parts = [part for name in names for part in (self.code(name), ", ")][:-1]
        return parts if len(names) <= 8 else [*parts[:10], " ", fold(f"and {len(names) - 5} more", *parts[10:])]


def section(anchor: str, title: str, *content: Content) -> Element:
    """Return a section with its heading."""
    return h("section", h("h2", title, id=f"{anchor}-title"), *content, id=anchor, aria_labelledby=f"{anchor}-title")


def table(caption: Content, columns: Sequence[str], rows: Sequence[Sequence[Content]], *, numeric: int = 0) -> Element:
    """Return a table whose first column names the rows.

    Args:
        caption: says what it shows.
        columns: headings.
        rows: as many cells each.
        numeric: how many of the last columns are numbers.
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
    return h("table", h("caption", caption), h("thead", head), h("tbody", body))


def fold(summary: Content, *content: Content, open: bool = False, id: Optional[str] = None) -> Element:
    """Return content that is folded away under its summary."""
    return h("details", h("summary", summary), *content, open=open, id=id)


def folded(text: str) -> Content:
    """Return a text, the most of a long one folded away."""
    if len(text) <= _LONG:
        return text
    return fold(f"{text[:_LONG]}\N{HORIZONTAL ELLIPSIS} ({len(text):,} characters)", h("p", text, class_="full"))


def badge(text: str, kind: str = "") -> Element:
    """Return a word that stands out, in the colour of a status or another kind."""
    return h("span", text, class_=f"badge {kind or text}")


def code(text: str) -> Element:
    """Return a name or path."""
    return h("code", text)


def place(view: Mapping[str, Any]) -> list[Content]:
    """Return where something is written, as :meth:`patchcore.builtin.explain.places.Place._asdict` has it."""
    where = view["file"]
    if where is not None and view["line"] is not None:
        where = f"{where}:{view['line']}"
    return [code(view["name"]), None if where is None else h("span", where, class_="where")]


def standings(found: Sequence[Standing]) -> list[Content]:
    """Return statuses with reasons, and with processes where those do not have the same."""
    if len(found) == 1:
        return [badge(found[0].status), " ", folded(found[0].reason)]
    return [
        h("p", badge(s.status), " on ", s.processes, [": ", folded(s.reason)] if s.reason else None, class_="standing")
        for s in found
    ]
