"""Patches that need other patches, ``Patch(needs_patches=...)``: each is applied only together with those."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import Optional, Protocol

from patchcore.declare.patch import Patch
from patchcore.errors import did_you_mean
from patchcore.planning.conditions import APPLY, OFF, Verdict
from patchcore.report import SKIPPED

__all__ = ["dependents", "unmet_needs"]


def unmet_needs(patches: Iterable[Patch], verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Return a verdict for each patch that would be applied without a patch that it needs, by name.

    Patches that need one of these are among them. Patches that need each other are all applied or none of them.

    Args:
        patches: of a plan.
        verdicts: by the names of all of ``patches``.
    """
    patches = list(patches)
    waiting = [p for p in patches if p.needs_patches and verdicts[p.name].word == APPLY]
    if not waiting:
        return {}
    known: dict[str, list[str]] = {}  # a legacy name may be that of several patches, one for each release of a library
    for patch in patches:
        for name in patch.names:
            known.setdefault(name, []).append(patch.name)
    unmet: dict[str, Verdict] = {}
    judged = ChainMap(unmet, dict(verdicts))
    found = True
    while found:
        found = False
        for patch in waiting:
            reason = None if patch.name in unmet else _why_unmet(patch, known, judged)
            if reason is not None:
                unmet[patch.name] = Verdict(SKIPPED, reason)
                found = True
    return unmet


def _why_unmet(patch: Patch, known: Mapping[str, list[str]], verdicts: Mapping[str, Verdict]) -> Optional[str]:
    for need in patch.needs_patches:
        named = known.get(need, [])
        if not named:
            return f"needs patch {need!r}, which no plugin here contributes{did_you_mean(need, known)}"
        if all(verdicts[name].word != APPLY for name in named):
            word, reason, _ = verdicts[named[0]]
            return _lost(named[0], "not enabled" if word == OFF else word, reason)
    return None


class _Entry(Protocol):
    """An entry of a plan; :mod:`patchcore.planning.plan` imports this module."""

    @property
    def patch(self) -> Patch: ...

    @property
    def verdict(self) -> str: ...


def dependents(patch: Patch, verdict: str, reason: str, entries: Iterable[_Entry]) -> dict[str, str]:
    """Return the patches of a plan that need ``patch``, directly or indirectly, each with its reason.

    Args:
        patch: is not applied.
        verdict: ``failed`` or ``skipped``.
        reason: why it is not applied.
        entries: those that are or will be applied are looked at.
    """
    waiting = [entry.patch for entry in entries if entry.verdict == APPLY and entry.patch.needs_patches]
    found: dict[str, str] = {}
    lost = [(patch, _lost(patch.name, verdict, reason))]
    while lost:
        other, why = lost.pop(0)
        for each in waiting:
            if each is not patch and each.name not in found and not other.names.isdisjoint(each.needs_patches):
                found[each.name] = why
                lost.append((each, _lost(each.name, SKIPPED, why)))
    return found


def _lost(name: str, verdict: str, reason: str) -> str:
    return f"needs patch {name}, which is {verdict}: {reason}"
