"""The targets: what lies on each, from the outermost layer to the original."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from patchcore.builtin.html import Content, Element, badge, code, fold, h, section
from patchcore.builtin.page.html.parts import Links, place
from patchcore.builtin.page.model import Run, TargetView, Variant
from patchcore.objects.printable import counted

__all__ = ["targets_section"]

_OPEN_TARGETS = 12  # a library with more of them is folded away


def targets_section(run: Run, links: Links) -> Element:
    """Return the section: targets by library, those with several layers first."""
    if not run.targets:
        return section("targets", "Targets", h("p", "No target was patched, or the reports do not say which."))
    stacked = [t for t in run.targets if any(len(variant.layers) > 1 for variant in t.variants)]
    others = [t for t in run.targets if t not in stacked]
    parts: list[Content] = [_group("Patched several times", stacked, links, open=True)] if stacked else []
    for root, targets in itertools.groupby(others, key=_root):
        found = list(targets)
        parts.append(_group(code(root), found, links, open=len(found) <= _OPEN_TARGETS))
    return section(
        "targets",
        "Targets",
        h("p", "What is called first stands first, the original last. Workers do not list their targets."),
        parts,
    )


def _root(target: TargetView) -> str:
    return target.target.partition(":")[0].partition(".")[0]


def _group(title: Content, targets: Sequence[TargetView], links: Links, *, open: bool) -> Element:
    count = h("span", counted(len(targets), "target"), class_="quiet")
    return fold(
        [title, " ", count], h("ul", [_target(target, links) for target in targets], class_="targets"), open=open
    )


def _target(target: TargetView, links: Links) -> Element:
    several = len(target.variants) > 1
    return h(
        "li",
        h("p", code(target.target), class_="name"),
        [_stack(variant, links, on=variant.processes if several else "") for variant in target.variants],
        id=links.id(target.target),
    )


def _stack(variant: Variant, links: Links, *, on: str) -> Content:
    layers = [h("li", _layer(layer, links)) for layer in variant.layers]
    original = h("li", badge("original", "skipped"), " ", place(variant.original))
    return [h("p", f"On {on}:", class_="quiet") if on else None, h("ol", layers, original, class_="layers")]


def _layer(layer: Mapping[str, Any], links: Links) -> list[Content]:
    if layer["patch"] is None:
        return [badge("somebody else", "failed"), " ", *place(layer["place"])]
    origin = f"{layer['distribution']} {layer['version'] or ''}".strip() if layer["distribution"] else layer["plugin"]
    return [
        badge(layer["kind"], "applied"),
        " ",
        *place(layer["place"]),
        h("span", "by ", links.code(layer["patch"]), f", {origin}", class_="by"),
    ]
