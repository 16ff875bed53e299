"""Writes the text of ``Patcher.print_info``."""

from __future__ import annotations

from collections.abc import Mapping

from mx_driving_compat.collecting.selection import Selection
from mx_driving_compat.patches.application import Outcome
from mx_driving_compat.patches.base import BasePatch
from patchcore.plugin import APPLIED, PENDING, SKIPPED, counted

__all__ = ["info_text"]

_LINE = "=" * 80


def info_text(selection: Selection, outcomes: Mapping[int, Outcome], *, diff: bool) -> str:
    """Return a text that lists the patches by library, each with its status.

    Args:
        selection: of the patcher.
        outcomes: the status of patches, by their ``id``; empty before they are applied.
        diff: also show the changes that the replacements make, where source is known.
    """
    by_module: dict[str, list[BasePatch]] = {}
    for patch, _ in selection.patches():
        by_module.setdefault(patch.module or "other", []).append(patch)
    count = sum(map(len, by_module.values()))
    lines = [_LINE, f"Patcher Info ({counted(len(by_module), 'module')}, {counted(count, 'patch')})", _LINE, ""]
    for module, patches in by_module.items():
        lines.append(f"[{module}] {counted(len(patches), 'patch')}")
        for patch in patches:
            status, reason = _outcome(patch, selection, outcomes)
            first, *more = [*patch.get_info(show_diff=diff).split("\n"), *filter(None, reason.split("\n"))]
            lines += [f"  [{status}] {first}", *(f"    {line}" for line in more)]
        lines.append("")
    return "\n".join(lines)


def _outcome(patch: BasePatch, selection: Selection, outcomes: Mapping[int, Outcome]) -> Outcome:
    if selection.is_disabled(patch):
        return Outcome("disabled")
    if id(patch) in outcomes:
        return outcomes[id(patch)]
    if patch.is_applied:  # without a patcher
        return Outcome(APPLIED)
    misfit = patch.misfit()
    return Outcome(SKIPPED, misfit) if misfit else Outcome(PENDING)
