"""The plan: which patches, in which order, with a verdict each, made before anything is changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

from patchcore.declare.changes import Change, SlotChange
from patchcore.declare.declaration import Declaration
from patchcore.declare.patch import Patch
from patchcore.declare.target import Step, Target
from patchcore.errors import UnknownName, conflict_message, did_you_mean
from patchcore.objects.printable import printable
from patchcore.planning.candidates import Candidate, choices_by_patch
from patchcore.planning.companions import unmet_needs
from patchcore.planning.conditions import APPLY, OFF, Environment, Verdict
from patchcore.planning.ordering import in_order
from patchcore.planning.provenance import Provenance
from patchcore.planning.spelling import FindHome, unify
from patchcore.report import FAILED, SKIPPED, Remark
from patchcore.settings import Choice, Settings

__all__ = ["Context", "Plan", "PlannedPatch", "covered_by", "make_plan"]


class PlannedPatch(NamedTuple):
    """One patch in a plan.

    Args:
        patch: the patch.
        provenance: who contributes it.
        targets: the target of each change, with its module.
        verdict: ``apply``, ``off``, ``skipped`` or ``failed``, see :class:`patchcore.planning.conditions.Verdict`.
        reason: why it is not applied, or not yet; empty when it is.
        chosen_by: the setting that enabled or disabled it; ``None`` for the default.
        rival: of a conflict, the patch that is applied instead.
        chosen_as: the name by which that setting means it.
        vetoed: true if a plugin has vetoed it.

    Examples:
        >>> import patchcore as pc
        >>> patch = pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))
        >>> entry = pc.Patcher([patch]).plan()["demo.mean"]
        >>> entry.verdict, [str(target) for target in entry.targets]
        ('apply', ['statistics:mean'])
    """

    patch: Patch
    provenance: Provenance
    targets: tuple[Target, ...]
    verdict: str
    reason: str = ""
    chosen_by: Optional[str] = None
    rival: Optional[str] = None
    chosen_as: Optional[str] = None
    vetoed: bool = False

    @property
    def asked_for(self) -> bool:
        """True if summaries must say why it is not applied: a user chose it, it is required or local, or it failed."""
        chosen = self.chosen_by is not None or self.patch.required or self.provenance.distribution is None
        chosen = chosen and not self.provenance.extends_patchcore  # of several such patches one fits
        return self.verdict != OFF and (chosen or self.verdict == FAILED or self.rival is not None or self.vetoed)


#: Returns the remarks of plugins on an entry of a plan.
Ask = Callable[[PlannedPatch], list[Remark]]


class Plan(Declaration):
    """All collected patches in the order of application, each with its verdict.

    Args:
        patches: one entry per patch; a patch that is not applied stands at the place that its order gives it.
        notes: remarks that belong to no single patch.
        ask: returns the remarks of plugins on an entry; by default there are none.

    Examples:
        >>> import patchcore as pc
        >>> patch = pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))
        >>> pc.Patcher([patch]).plan()["demo.mean"].verdict
        'apply'
    """

    patches: tuple[PlannedPatch, ...]
    notes: tuple[str, ...]
    ask: Optional[Ask]

    def __init__(
        self, patches: tuple[PlannedPatch, ...], notes: tuple[str, ...] = (), ask: Optional[Ask] = None
    ) -> None:
        super().__init__(patches=patches, notes=notes, ask=ask)

    def _key(self) -> tuple[object, ...]:
        return self.patches, self.notes

    def __iter__(self) -> Iterator[PlannedPatch]:
        return iter(self.patches)

    def __len__(self) -> int:
        return len(self.patches)

    def __getitem__(self, name: str) -> PlannedPatch:
        """Return the entry of patch ``name`` or legacy ``name``; raise :class:`UnknownName` with the nearest."""
        for names in (lambda e: (e.patch.name,), lambda e: e.patch.legacy_names):
            for entry in self.patches:
                if name in names(entry):
                    return entry
        hint = did_you_mean(name, (entry.patch.name for entry in self.patches))
        raise UnknownName(f"no patch {name!r} in this plan{hint}", name)

    @property
    def conflicts(self) -> list[PlannedPatch]:
        """The patches that fail because they write a slot of another."""
        return [entry for entry in self.patches if entry.verdict == FAILED and entry.rival is not None]

    def remarks(self, entry: PlannedPatch) -> list[Remark]:
        """Return the remarks on an entry of this plan, those of plugins included. They may read sources."""
        return [*self.covered(entry), *([] if self.ask is None else self.ask(entry))]

    def covered(self, entry: PlannedPatch) -> list[Remark]:
        """Return a remark for each target of ``entry`` that a later patch replaces, so that it is not called."""
        names = [other.patch.name for other in self.patches]
        found: dict[str, bool] = {}
        for other in self.patches[names.index(entry.patch.name) + 1 :] if entry.verdict == APPLY else ():
            covering = [target for change, target in zip(other.patch.changes, other.targets) if change.covers]
            for cover in covering if other.verdict == APPLY else ():
                covered = [target for target in entry.targets if cover.covers(target)]
                found.update((covered_by(str(t), other.patch.name, str(cover)), cover == t) for t in covered)
        # a class that replaces another one may inherit the patched attribute, so only equal targets are a finding
        return [Remark(text, finding=is_whole, advice=_UNCOVER, topic="covered") for text, is_whole in found.items()]

    def __str__(self) -> str:
        lines = []
        for entry in self.patches:
            reason = f": {entry.reason}" if entry.reason else ""
            lines.append(f"{entry.verdict:<8} {entry.patch.name} [{entry.provenance}]{reason}")
            if entry.verdict == APPLY:
                lines += (f"           {c.phrase(t)}" for c, t in zip(entry.patch.changes, entry.targets))
                lines += (f"           {remark.text}" for remark in self.remarks(entry) if remark.text)
        lines += (f"note: {note}" for note in self.notes)
        return printable("\n".join(lines)) or "no patches"


_UNCOVER = "Let the later patch wrap what is there, or declare conflicts= in one of the two"


def covered_by(target: str, name: str, cover: str) -> str:
    """Return the remark that ``target`` is not called any more because patch ``name`` replaces ``cover``."""
    if cover != target:
        return f"{target} is covered by {name}, which replaces {cover}, unless the replacement inherits or calls it"
    return f"{target} is covered by {name}: it is called only if the replacement calls it"


class Context(NamedTuple):
    """The argument ``context`` of the hooks ``before_apply`` and ``on_failure``.

    Args:
        provenance: the plugin that contributes the patch.
        settings: the user's settings.
        plan: the plan that is being applied.
        patcher: the :class:`~patchcore.Patcher` that applies the patch; several may share one plugin.

    Examples:
        >>> import patchcore as pc
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def before_apply(self, patch, context):
        ...         return pc.Skip("never") if context.provenance.distribution is None else None
        >>> patcher = pc.Patcher([pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))])
        >>> patcher.plugins.add(Plugin(), "demo")
        >>> patcher.plan()["demo.mean"].reason
        'vetoed by plugin demo: never'
    """

    provenance: Provenance
    settings: Settings
    plan: Plan
    patcher: Any


def make_plan(
    candidates: Sequence[Candidate],
    choices: Sequence[Choice] = (),
    environment: Optional[Environment] = None,
    *,
    complete: bool = True,
    find_home: Optional[FindHome] = None,
) -> Plan:
    """Decide for every candidate whether it is applied, and in which order.

    Args:
        candidates: the patches of all plugins, with unique names.
        choices: the names that the user enabled and disabled.
        environment: the installed distributions; looked up again by default.
        complete: false when some plugins were not loaded: a choice that matches nothing may mean a patch of theirs, and
            becomes a note in the plan.
        find_home: see :func:`patchcore.planning.spelling.unify`.

    Raises:
        UnknownName: a choice matches nothing.
        PlanError: ``after`` / ``before`` make a cycle; the message prints it.
    """
    environment = environment or Environment()
    notes: list[str] = []
    chosen = choices_by_patch(candidates, choices, None if complete else notes)
    verdicts = {c.patch.name: _first_verdict(c, chosen.get(c.patch.name), environment) for c in candidates}
    behind = _judge_again(candidates, verdicts, environment)
    ordered = in_order(candidates, {name for name, verdict in verdicts.items() if verdict.word == APPLY}, behind)
    targets = _targets(ordered, verdicts, environment, find_home)
    # among patches that exclude each other the enabled one wins, then the earlier one
    enabled = {name for name, choice in chosen.items() if choice.enable}
    ranked, patches = sorted(ordered, key=lambda c: c.patch.name not in enabled), [c.patch for c in candidates]
    verdicts.update(unmet_needs(patches, verdicts))
    while True:  # a patch that is skipped because it needs another one excludes no patch
        judged = dict(verdicts)
        _exclude(ranked, targets, judged, environment)
        unmet = unmet_needs(patches, judged)
        if not unmet:
            break
        verdicts.update(unmet)
    entries = []
    for patch, by in ordered:
        verdict, reason, rival = judged[patch.name]
        choice = chosen.get(patch.name)
        origin, said = (None, None) if choice is None else (choice.origin, choice.name)
        entries.append(PlannedPatch(patch, by, targets[patch.name], verdict, reason, origin, rival, said))
    return Plan(tuple(entries), tuple(notes))


def _judge_again(
    candidates: Sequence[Candidate], verdicts: dict[str, Verdict], environment: Environment
) -> dict[str, list[str]]:
    """Judge patches again whose libraries are missing here, now that it is known which libraries others provide.

    Args:
        candidates: the patches.
        verdicts: by patch name; those of such patches are replaced.
        environment: judges.

    Returns:
        By the name of such a patch, the patches that make its libraries importable: they must be applied earlier.
    """
    provided: dict[str, bool] = {}  # by library, whether it has content, or is a stub
    providers: defaultdict[str, list[str]] = defaultdict(list)  # by library, the patches that make it importable
    for patch in [c.patch for c in candidates if verdicts[c.patch.name].word == APPLY]:
        for change in patch.changes:
            for library in change.provides:
                provided[library] = change.provides_content or provided.get(library, False)
                providers[library].append(patch.name)
    behind: dict[str, list[str]] = {}
    for patch in [c.patch for c in candidates] if provided else ():
        # A patch whose `when` was called has all that it needs, so `when` is called once for each plan.
        if verdicts[patch.name].word != OFF and environment.is_missing(patch):
            verdicts[patch.name] = environment.judge(patch, provided)
            if verdicts[patch.name].word == APPLY:
                roots = (root for change in patch.changes for root in change.libraries)
                behind[patch.name] = [each for root in roots for each in providers[root] if each != patch.name]
    return behind


def _targets(
    ordered: Sequence[Candidate],
    verdicts: Mapping[str, Verdict],
    environment: Environment,
    find_home: Optional[FindHome],
) -> dict[str, tuple[Target, ...]]:
    """Return the targets of each patch, with their modules, by patch name; one place is spelled in one way."""
    targets = {c.patch.name: tuple([ch.target.pin(environment.is_module) for ch in c.patch.changes]) for c in ordered}
    applied = [c.patch for c in ordered if verdicts[c.patch.name].word == APPLY]
    slots = {t for p in applied for change, t in zip(p.changes, targets[p.name]) if _is_spelled(change)}
    spelling = unify(slots, find_home)
    for p in applied if spelling else ():
        pairs = zip(p.changes, targets[p.name])
        targets[p.name] = tuple([spelling.get(t, t) if _is_spelled(change) else t for change, t in pairs])
    return targets


def _is_spelled(change: Change) -> bool:
    """True for a change of a slot that others may spell otherwise."""
    return isinstance(change, SlotChange) and change.only_in is None


def _first_verdict(candidate: Candidate, choice: Optional[Choice], environment: Environment) -> Verdict:
    if choice is not None and not choice.enable:
        return Verdict(OFF, f"disabled by {choice.origin} ({choice.name})")
    if choice is None and not candidate.patch.default:
        reason = f"not in the default set; apply it with --enable {candidate.patch.name}"
        return Verdict(OFF, reason)
    return environment.judge(candidate.patch)


def _exclude(
    candidates: Sequence[Candidate],
    targets: Mapping[str, Sequence[Target]],
    verdicts: dict[str, Verdict],
    environment: Environment,
) -> None:
    """Refuse each patch that is in conflict with an earlier one of ``candidates``; ``targets`` are by patch name."""
    accepted: dict[str, Candidate] = {}
    refused_by: dict[str, Candidate] = {}  # a name -> an accepted patch that conflicts with it
    # the steps of a target -> the accepted patches that write it or something inside it, that write itself
    holding: defaultdict[tuple[Step, ...], list[Candidate]] = defaultdict(list)
    written: defaultdict[tuple[Step, ...], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        patch = candidate.patch
        name, names = patch.name, (patch.name, *patch.legacy_names)
        if verdicts[name].word != APPLY:
            continue
        rival = None
        if patch.conflicts or refused_by:
            rival = next(filter(None, (*map(accepted.get, patch.conflicts), *map(refused_by.get, names))), None)
        if rival is not None:
            reason = f"conflicts with {rival.patch.name} ({rival.provenance}), which is applied"
            verdicts[name] = Verdict(SKIPPED, reason, rival.patch.name)
            continue
        claimed = [claim for change, target in zip(patch.changes, targets[name]) for claim in change.claims(target)]
        claims = {(t.module, *t.path): t for t in [t if t.module else t.pin(environment.is_module) for t in claimed]}
        clash = _clash(candidate, claims, written, holding)
        if clash is not None:
            target, holder, inside = clash
            message = conflict_message(str(target), holder, candidate, inside=inside)
            verdicts[name] = Verdict(FAILED, message, holder.patch.name)
            continue
        for own in names:
            accepted[own] = candidate
        for other in patch.conflicts:
            refused_by[other] = candidate
        for steps in claims:
            written[steps].append(candidate)
            for end in range(1, len(steps) + 1):
                holding[steps[:end]].append(candidate)


def _clash(
    candidate: Candidate,
    claims: Mapping[tuple[Step, ...], Target],
    written: dict[tuple[Step, ...], list[Candidate]],
    holding: dict[tuple[Step, ...], list[Candidate]],
) -> Optional[tuple[Target, Candidate, bool]]:
    """Return a target of ``candidate``, the accepted patch in conflict there, and whether that only writes inside."""
    for steps, target in claims.items():
        others = [*holding.get(steps, ())]
        for end in range(1, len(steps)):
            others += written.get(steps[:end], ())
        for other in others:
            if other is not candidate and not candidate.patch.stacks_with(other.patch):
                around = [written.get(steps[:end], ()) for end in range(1, len(steps) + 1)]
                return target, other, not any(other in patches for patches in around)
    return None
