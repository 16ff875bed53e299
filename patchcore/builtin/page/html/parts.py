"""Parts that several sections of the page of a run are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from patchcore.builtin.html import Content, Element, badge, code, fold, folded, h
from patchcore.builtin.page.model import Run, Standing

__all__ = ["Links", "place", "standings"]


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
