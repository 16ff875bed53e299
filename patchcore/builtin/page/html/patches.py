"""The patches: what became of each, and of its changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from patchcore.builtin.html import Content, Element, badge, code, fold, h, section, table
from patchcore.builtin.page.html.parts import Links, standings
from patchcore.builtin.page.model import STATUSES, ChangeView, PatchView, Run
from patchcore.builtin.page.words import span
from patchcore.objects.printable import counted
from patchcore.report import APPLIED, FAILED, PENDING, REVERTED, SKIPPED

__all__ = ["patches_section", "references_section"]

_MEANINGS = {
    FAILED: "all of its changes are reverted",
    REVERTED: "was applied before",
    APPLIED: "in effect",
    PENDING: "waits for a module that was not imported",
    SKIPPED: "not for this environment, or disabled",
}
_OPEN_PATCHES = 40  # a status with more of them is folded away
_MOST_REFERENCES = 400


def patches_section(run: Run, links: Links) -> Element:
    """Return the section: patches by status."""
    groups = [
        _group(status, [patch for patch in run.patches if patch.status == status], links)
        for status in STATUSES
        if any(patch.status == status for patch in run.patches)
    ]
    return section("patches", "Patches", groups or h("p", "There are none."))


def references_section(run: Run, links: Links) -> Element:
    """Return the section: names bound by value that follow patches, and places that do not."""
    rebound = [(name, change, patch) for patch in run.patches for change in patch.changes for name in change.rebound]
    kept = [(name, change, patch) for patch in run.patches for change in patch.changes for name in change.kept]
    lost = [(name, change, patch) for patch in run.patches for change in patch.changes for name in change.unreachable]
    places = _references("Places that still hold an original", lost, links)
    if places is None:
        places = h(
            "p",
            "Processes of a run do not search closures, default arguments and containers for originals, because that "
            "search visits all objects. ",
            code("patchcore explain"),
            " searches them.",
        )
    return section(
        "references",
        "References",
        _references("Names rebound to a replacement", rebound, links),
        _references("Names not rebound, because the replacement uses the original there", kept, links),
        places,
    )


def _group(status: str, patches: Sequence[PatchView], links: Links) -> Element:
    title: list[Content] = [badge(status), f" {counted(len(patches), 'patch', 'patches')}, {_MEANINGS[status]}"]
    body = [_patch(patch, links) for patch in patches]
    is_open = status in (FAILED, REVERTED) or (status == APPLIED and len(patches) <= _OPEN_PATCHES)
    return fold(h("h3", title), body, open=is_open, id=f"patches-{status}", class_="group")


def _patch(patch: PatchView, links: Links) -> Element:
    summary: list[Content] = [badge(patch.status), " ", code(patch.name), " "]
    facts = [patch.origin]
    if patch.changes:
        facts.append(counted(len(patch.changes), "change"))
    if patch.hits is not None:
        facts.append(counted(patch.hits, "hit"))
    summary.append(h("span", ", ".join(facts), class_="quiet"))
    if patch.never_hit:
        summary += [" ", badge("never hit", "pending")]
    if patch.only_on:
        summary += [" ", badge(f"only on {patch.only_on}", "pending")]
    if patch.differs:
        summary += [" ", badge("ranks differ", "failed")]
    if patch.remarks:
        summary += [" ", badge("remark", "pending")]
    if len(patch.standings) == 1 and patch.standings[0].reason:
        reason = patch.standings[0].reason
        summary += [
            h("span", reason if len(reason) <= 160 else f"{reason[:160]}\N{HORIZONTAL ELLIPSIS}", class_="reason")
        ]
    return fold(
        summary,
        h("div", _details(patch, links), class_="inside"),
        open=patch.status == FAILED,
        id=links.id(patch.name),
        class_="item",
    )


def _details(patch: PatchView, links: Links) -> list[Content]:
    content: list[Content] = []
    if len(patch.standings) > 1 or len(patch.standings[0].reason) > 160:
        content += [h("div", standings(patch.standings))]
    content += (h("p", badge("remark", "pending"), " ", remark) for remark in patch.remarks)
    if patch.applied_at:
        content.append(h("p", f"Applied {span(patch.applied_at)} after the start of the process.", class_="quiet"))
    if patch.options:
        content.append(h("p", "Options: ", [[code(f"{key} = {value}"), " "] for key, value in patch.options.items()]))
    if patch.changes:
        content.append(_changes(patch, links))
    return content


def _changes(patch: PatchView, links: Links) -> Element:
    counts = patch.calls is not None
    same = all([s.status for s in change.standings] == [patch.status] for change in patch.changes)
    rows: list[list[Content]] = []
    for change in patch.changes:
        reasons = any(standing.reason for standing in change.standings)
        row: list[Content] = [[links.code(change.target), _places(change, links)], change.kind]
        row.append(standings(change.standings) if reasons or not same else badge(patch.status))
        rows.append([*row, *(_counts(change) if counts else ())])
    columns = ("Target", "Change", "Status", *(("Calls", "Replaced") if counts else ()))
    return table([code(patch.name), ", change by change"], columns, rows, numeric=2 if counts else 0)


def _counts(change: ChangeView) -> list[Content]:
    if change.calls is None:
        return ["", ""]
    replaced = change.calls if change.replaced is None else change.replaced
    return [f"{change.calls:,}", f"{replaced:,}"]


def _places(change: ChangeView, links: Links) -> list[Content]:
    others = [slot for slot in change.slots if slot != change.target]
    lists = (("wrote", others), ("rebound", change.rebound), ("kept", change.kept), ("unreachable", change.unreachable))
    return [h("div", f"{label} ", links.codes(places), class_="places") for label, places in lists if places]


def _references(title: str, found: Sequence[tuple[str, ChangeView, PatchView]], links: Links) -> Optional[Element]:
    if not found:
        return None
    rows = [(code(name), links.code(change.target), links.code(patch.name)) for name, change, patch in found]
    shown = sorted(rows[:_MOST_REFERENCES], key=lambda row: row[0].text or "")
    left = len(rows) - len(shown)
    more = h("p", f"{left:,} more are with their patches.") if left else None
    caption = f"{title}, by name"
    body = table(caption, ("Name", "Target", "Patch"), shown)
    return fold([f"{title} ", h("span", f"({len(rows):,})", class_="quiet")], body, more, open=len(rows) <= 12, id=None)
