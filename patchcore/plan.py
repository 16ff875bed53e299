"""The plan: which patches, in which order, with a verdict each, made before anything is changed."""

from __future__ import annotations

import graphlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional

from patchcore.conditions import Environment, Verdict
from patchcore.errors import PlanError, UnknownName, conflict_message, did_you_mean
from patchcore.patch import Patch
from patchcore.provenance import Provenance
from patchcore.report import FAILED, PENDING, SKIPPED
from patchcore.settings import Choice
from patchcore.target import Target

__all__ = ["Candidate", "Plan", "PlannedPatch", "make_plan", "select"]


class Candidate(NamedTuple):
    """A patch that a plugin contributed."""

    patch: Patch
    provenance: Provenance


@dataclass(frozen=True)
class PlannedPatch:
    """One patch in a plan.

    Args:
        patch: the patch.
        provenance: who contributes it.
        targets: the target of each change, with its module.
        status: ``pending`` when it is to be applied, else ``skipped`` or ``failed``.
        reason: why it is not, empty when it is.
        chosen_by: the setting that enabled or disabled it; ``None`` for the default.
    """

    patch: Patch
    provenance: Provenance
    targets: tuple[Target, ...]
    status: str
    reason: str = ""
    chosen_by: Optional[str] = None

    @property
    def go(self) -> bool:
        """True when the patch is to be applied."""
        return self.status == PENDING

    @property
    def unwanted(self) -> bool:
        """True when it is skipped by choice or default, not because it does not fit."""
        return self.status == SKIPPED and self.reason.startswith(("disabled", "not in the default set"))


@dataclass(frozen=True)
class Plan:
    """The patches in the order in which they are applied; those that are not, in the place they would have."""

    patches: tuple[PlannedPatch, ...]

    def __iter__(self) -> Iterator[PlannedPatch]:
        return iter(self.patches)

    def __len__(self) -> int:
        return len(self.patches)

    def __getitem__(self, name: str) -> PlannedPatch:
        """Return the entry of patch ``name`` or legacy ``name``; raise :class:`UnknownName` with the nearest."""
        for entry in self.patches:
            if name in entry.patch.names:
                return entry
        raise UnknownName(f"no patch {name!r} in this plan{did_you_mean(name, (e.patch.name for e in self.patches))}")

    @property
    def conflicts(self) -> list[PlannedPatch]:
        """The patches that fail because they write a slot of another."""
        return [entry for entry in self.patches if entry.status == FAILED and " is patched by both " in entry.reason]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain dictionaries and lists."""
        return {
            "patches": [
                {
                    "name": e.patch.name,
                    "verdict": "apply" if e.go else e.status,
                    "reason": e.reason,
                    "chosen_by": e.chosen_by,
                    "plugin": e.provenance.plugin,
                    "distribution": e.provenance.distribution,
                    "version": e.provenance.version,
                    "changes": [{"kind": c.kind, "target": str(t)} for c, t in zip(e.patch.changes, e.targets)],
                }
                for e in self.patches
            ]
        }

    def __str__(self) -> str:
        lines = []
        for entry in self.patches:
            verdict = "apply" if entry.go else entry.status
            reason = f": {entry.reason}" if entry.reason else ""
            lines.append(f"{verdict:<8} {entry.patch.name} [{entry.provenance}]{reason}")
            if entry.go:
                lines += (f"           {c.kind} {t}" for c, t in zip(entry.patch.changes, entry.targets))
        return "\n".join(lines) or "no patches"


def make_plan(
    candidates: Sequence[Candidate], choices: Sequence[Choice] = (), environment: Optional[Environment] = None
) -> Plan:
    """Decide for every candidate whether it is applied, and in which order.

    Args:
        candidates: what the plugins contribute, patch names unique.
        choices: what the user enabled and disabled, the weakest first.
        environment: what is installed; looked up anew by default.

    Raises:
        UnknownName: a choice matches nothing.
        PlanError: ``after`` / ``before`` make a cycle; the message prints it.
    """
    environment = environment or Environment()
    chosen = _choose(candidates, choices)
    verdicts = {c.patch.name: _first_verdict(c, chosen.get(c.patch.name), environment) for c in candidates}
    ordered = _order(candidates, lambda c: verdicts[c.patch.name].status == PENDING)
    targets = {c.patch.name: tuple(ch.target.pin(environment.is_module) for ch in c.patch.changes) for c in ordered}
    # among patches that exclude each other the one asked for by name wins, then the earlier one
    enabled = {name for name, choice in chosen.items() if choice.enable}
    _exclude(sorted(ordered, key=lambda c: c.patch.name not in enabled), targets, verdicts)
    return Plan(
        tuple(
            PlannedPatch(
                c.patch,
                c.provenance,
                targets[c.patch.name],
                verdicts[c.patch.name].status,
                verdicts[c.patch.name].reason,
                chosen[c.patch.name].origin if c.patch.name in chosen else None,
            )
            for c in ordered
        )
    )


def select(name: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that ``name`` means: a patch, a legacy name, a plugin, a target, or ``*`` for all.

    Raises:
        UnknownName: it means none of them; the message has the nearest name.
    """
    candidates = list(candidates)
    if name == "*":
        return candidates
    target = str(Target.parse(name).pin()) if ":" in name else None
    tests: tuple[Callable[[Candidate], bool], ...] = (
        lambda c: c.patch.name == name,
        lambda c: name in c.patch.legacy_names,
        lambda c: c.provenance.plugin == name,
        lambda c: any(str(change.target) in (name, target) for change in c.patch.changes),
    )
    for test in tests:
        found = [c for c in candidates if test(c)]
        if found:
            return found
    known = [
        n
        for c in candidates
        for n in (*sorted(c.patch.names), c.provenance.plugin, *map(lambda ch: str(ch.target), c.patch.changes))
    ]
    raise UnknownName(f"nothing is called {name!r}: no patch, legacy name, plugin or target{did_you_mean(name, known)}")


def _choose(candidates: Sequence[Candidate], choices: Sequence[Choice]) -> dict[str, Choice]:
    """The choice that decides for each patch: the strongest source, in it the most specific name, of two alike the refusal."""
    decided: dict[str, Choice] = {}
    for origin in dict.fromkeys(_source(choice) for choice in choices):
        sets = [(choice, select(choice.name, candidates)) for choice in choices if _source(choice) == origin]
        for choice, matched in sorted(sets, key=lambda s: (-len(s[1]), not s[0].enable)):
            decided.update((c.patch.name, choice) for c in matched)
    return decided


def _source(choice: Choice) -> str:
    return (
        "command line"
        if choice.origin.startswith("--")
        else "environment"
        if choice.origin.isupper()
        else choice.origin
    )


def _first_verdict(candidate: Candidate, choice: Optional[Choice], environment: Environment) -> Verdict:
    if choice is not None and not choice.enable:
        return Verdict(SKIPPED, f"disabled by {choice.origin} ({choice.name})")
    if choice is None and not candidate.patch.default:
        return Verdict(SKIPPED, f"not in the default set; apply it with --enable {candidate.patch.name}")
    return environment.judge(candidate.patch)


def _order(candidates: Sequence[Candidate], active: Callable[[Candidate], bool]) -> list[Candidate]:
    by_name = {name: i for i, c in reversed(list(enumerate(candidates))) for name in c.patch.names}
    graph: dict[int, set[int]] = {i: set() for i in range(len(candidates))}
    for i, candidate in enumerate(candidates):
        if not active(candidate):
            continue
        for names, first in ((candidate.patch.after, False), (candidate.patch.before, True)):
            for name in names:
                j = by_name.get(name)
                if j is not None and active(candidates[j]):
                    graph[j if first else i].add(i if first else j)
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        raise PlanError(_cycle_message([candidates[i] for i in error.args[1]])) from None
    keys = [(c.patch.priority, c.provenance.plugin, i) for i, c in enumerate(candidates)]
    ready = [keys[i] for i in sorter.get_ready()]
    heapq.heapify(ready)
    ordered = []
    while ready:
        index = heapq.heappop(ready)[2]
        ordered.append(candidates[index])
        sorter.done(index)
        for released in sorter.get_ready():
            heapq.heappush(ready, keys[released])
    return ordered


def _cycle_message(cycle: Sequence[Candidate]) -> str:
    # graphlib lists each patch before the one that waits for it
    path = " -> ".join(c.patch.name for c in cycle)
    who = "; ".join(
        f"{c.patch.name} ({c.provenance}) declares after={list(c.patch.after)}, before={list(c.patch.before)}"
        for c in cycle[1:]
    )
    return f"the order of the patches is a cycle: {path}. {who}. Remove one of these, or disable one of the patches"


def _exclude(
    candidates: Sequence[Candidate], targets: dict[str, tuple[Target, ...]], verdicts: dict[str, Verdict]
) -> None:
    """Turn down each patch that cannot go together with an earlier one of ``candidates``."""
    accepted: dict[str, Candidate] = {}
    refused_by: dict[str, Candidate] = {}  # a name -> an accepted patch that conflicts with it
    holding: dict[Target, list[Candidate]] = {}  # a target -> the accepted patches that write it or something inside it
    written: dict[Target, list[Candidate]] = {}
    for candidate in candidates:
        name = candidate.patch.name
        if verdicts[name].status != PENDING:
            continue
        rival = next((accepted[n] for n in candidate.patch.conflicts if n in accepted), None)
        rival = rival or next((refused_by[n] for n in candidate.patch.names if n in refused_by), None)
        if rival is not None:
            verdicts[name] = Verdict(
                SKIPPED, f"conflicts with {rival.patch.name} ({rival.provenance}), which is applied"
            )
            continue
        clash = _clash(candidate, targets[name], written, holding)
        if clash is not None:
            target, other = clash
            verdicts[name] = Verdict(FAILED, conflict_message(str(target), other, candidate))
            continue
        accepted.update((n, candidate) for n in candidate.patch.names)
        refused_by.update((n, candidate) for n in candidate.patch.conflicts)
        for target in targets[name]:
            written.setdefault(target, []).append(candidate)
            for depth in range(1, len(target.path) + 1):
                holding.setdefault(Target(target.module, target.path[:depth]), []).append(candidate)


def _clash(
    candidate: Candidate,
    targets: Sequence[Target],
    written: dict[Target, list[Candidate]],
    holding: dict[Target, list[Candidate]],
) -> Optional[tuple[Target, Candidate]]:
    for change, target in zip(candidate.patch.changes, targets):
        if change.kind == "call":
            continue
        around = (Target(target.module, target.path[:depth]) for depth in range(1, len(target.path)))
        for others in (holding.get(target, ()), *(written.get(t, ()) for t in around)):
            for other in others:
                if other is not candidate and not candidate.patch.stacks_with(other.patch):
                    return target, other
    return None
