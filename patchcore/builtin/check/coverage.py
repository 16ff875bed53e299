"""Counts the comparisons of ``patchcore check``: no finding means little where nothing was compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from patchcore.builtin.drift.drift import UNKNOWN, fingerprinted
from patchcore.objects.printable import counted
from patchcore.planning.conditions import OFF, Environment
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import Remark

__all__ = ["Coverage", "cover", "is_disabled"]


class Coverage(NamedTuple):
    """How many targets were compared with their fingerprints.

    Args:
        compared: targets that were compared.
        others: the number of targets that were not compared, by reason.
        skipped: the number of patches whose targets were not looked at, by reason: an unmet requirement.
    """

    compared: int
    others: dict[str, int]
    skipped: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view."""
        return {"compared": self.compared, "not_compared": self.others, "patches_skipped": self.skipped}

    def __str__(self) -> str:
        total = self.compared + sum(self.others.values())
        why = ", ".join(f"{count} {reason}" for reason, count in self.others.items())
        text = f"compared with fingerprints: {self.compared} of {counted(total, 'target')}{f' ({why})' if why else ''}"
        if self.skipped:
            reasons = "; ".join(list(self.skipped)[:3]) + ("; ..." if len(self.skipped) > 3 else "")
            some = counted(sum(self.skipped.values()), "patch")
            text += f"\nnot for this environment: {some if total else f'all {some}'} ({reasons})"
        return text


def is_disabled(entry: PlannedPatch) -> bool:
    """True if a setting has disabled a patch; one that is off by default is not disabled."""
    return entry.verdict == OFF and entry.chosen_by is not None


def cover(plan: Plan, remarks: Iterable[tuple[str, Remark]], environment: Environment) -> Coverage:
    """Return how many targets of a plan were compared.

    Args:
        plan: whose patches were checked.
        remarks: on them, with their names; those about drift have the comparisons.
        environment: the installed libraries.
    """
    comparisons: dict[str, list[Any]] = {}
    for name, remark in remarks:
        if remark.topic == "drift":
            comparisons.setdefault(name, []).extend(remark.data)
    compared, others, skipped = 0, Counter[str](), Counter[str]()
    for entry in plan:
        if is_disabled(entry):
            continue
        if not environment.has_libraries_of(entry.patch):
            reason = environment.judge(entry.patch).reason or "its libraries are not installed"
            skipped[reason.partition(", which")[0]] += 1
            continue
        data = comparisons.get(entry.patch.name)
        if not data:
            others["without fingerprints"] += sum(1 for _ in fingerprinted(entry.patch, entry.targets))
            continue
        for each in data:
            if each["status"] == UNKNOWN:
                others[each["reason"]] += 1
            else:
                compared += 1
    return Coverage(compared, dict((+others).most_common()), dict(skipped.most_common()))
