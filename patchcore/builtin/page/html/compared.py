"""Another run beside this one."""

from __future__ import annotations

from collections.abc import Sequence

from patchcore.builtin.html import Content, Element, badge, code, folded, h, section, table
from patchcore.builtin.page.compare import compare
from patchcore.builtin.page.html.parts import Links
from patchcore.builtin.page.merge import Process
from patchcore.builtin.page.model import STATUSES

__all__ = ["compared_section"]


def compared_section(before: Sequence[Process], after: Sequence[Process], links: Links) -> Element:
    """Return the section: what differs between another run and this one, side by side."""
    rows: list[list[Content]] = [
        [[links.code(d.name) if d.kind != "run" else d.name], d.kind, _value(d.before), _value(d.after)]
        for d in compare(before, after)
    ]
    runs = (f"Run {before[0].run}", f"Run {after[0].run}, this one")
    body = table("What differs", ("Name", "What", *runs), rows) if rows else h("p", "Nothing differs.")
    return section("compared", "Compared with another run", body)


def _value(text: str) -> Content:
    status, _, reason = text.partition(": ")
    if status in STATUSES:
        return [badge(status), " ", folded(reason)]
    return code(text)
