"""Plans made from other plans: when plugins veto patches, and when a Patcher that is applied goes on to a new plan."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType

from patchcore.declare.target import Target
from patchcore.planning.companions import unmet_needs
from patchcore.planning.conditions import APPLY, Verdict
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import FAILED, SKIPPED

__all__ = ["continue_plan", "with_vetoes"]


_NONE: Mapping[str, str] = MappingProxyType({})


def with_vetoes(plan: Plan, vetoes: Mapping[str, str], waits: Mapping[str, str] = _NONE) -> Plan:
    """Return ``plan`` with the answers of plugins.

    Args:
        plan: as it is without plugins.
        vetoes: the reasons of patches that plugins have vetoed, by name: they are skipped.
        waits: the reasons of patches that plugins hold back, by name: they will be applied later.
    """
    if not vetoes and not waits:
        return plan
    entries = []
    for entry in plan:
        name = entry.patch.name
        if name in vetoes:
            entry = entry._replace(verdict=SKIPPED, reason=vetoes[name], vetoed=True)
        elif name in waits:
            entry = entry._replace(reason=waits[name])
        entries.append(entry)
    unmet = unmet_needs([e.patch for e in entries], {e.patch.name: Verdict(e.verdict, e.reason) for e in entries})
    for at, entry in enumerate(entries):
        if entry.patch.name in unmet:
            entries[at] = entry._replace(verdict=SKIPPED, reason=unmet[entry.patch.name].reason)
    return plan.evolve(patches=tuple(entries))


def continue_plan(
    plan: Plan, known: Mapping[str, PlannedPatch], tried: Container[str]
) -> tuple[Plan, list[PlannedPatch], list[PlannedPatch]]:
    """Return the steps from an earlier plan, which was carried out, to ``plan``.

    Args:
        plan: made as if nothing were applied.
        known: the entries of the earlier plan by patch name.
        tried: the names of those that were applied, failed or were vetoed.

    Returns:
        The later plan, in which patches that were tried keep their earlier entries; the entries to apply now, in order;
        and those of them that must be reverted first, because a new patch of the same target goes below them.
    """
    beaten = {t: e for e in plan if e.rival is not None and e.patch.name in tried for t in e.targets}
    entries: list[PlannedPatch] = []
    new: list[PlannedPatch] = []
    covered: list[PlannedPatch] = []
    targets: set[Target] = set()
    for entry in plan:
        before = known.get(entry.patch.name, entry)
        if entry.patch.name not in tried and entry != known.get(entry.patch.name):
            rival = next((beaten[target] for target in entry.targets if target in beaten), None)
            if rival is not None and entry.verdict == APPLY:  # who came first stays
                entry = entry._replace(verdict=FAILED, reason=rival.reason, rival=rival.patch.name)
            before = entry
            new.append(entry)
            targets.update(entry.targets if entry.verdict == APPLY else ())
        elif (
            before.verdict == entry.verdict == APPLY
            and entry.patch.name in tried
            and not targets.isdisjoint(entry.targets)
        ):
            covered.append(before)
            new.append(before)
        entries.append(before)
    return plan.evolve(patches=tuple(entries)), new, covered
