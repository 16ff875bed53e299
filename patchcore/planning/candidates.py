"""Patches with the plugins that contribute them, and the selection of patches by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Callable, NamedTuple, Optional

from patchcore.declare.patch import Patch
from patchcore.declare.target import Step, Target
from patchcore.errors import TargetError, UnknownName, did_you_mean
from patchcore.planning.provenance import Provenance
from patchcore.settings import Choice

__all__ = ["Candidate", "choices_by_patch", "select_patches", "steps_of"]


class Candidate(NamedTuple):
    """A patch that a plugin contributed.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import Candidate, Provenance
        >>> patch = pc.Patch("shop.price", changes=pc.Replace("shop:price", len))
        >>> pc.Patcher([Candidate(patch, Provenance("shop"))]).plan()["shop.price"].provenance.plugin
        'shop'
    """

    patch: Patch
    provenance: Provenance

    @property
    def is_named_after_its_plugin(self) -> bool:
        """True if the patch's name begins with that of its plugin: of two ``mmcv.roi_pool``, mmcv's keeps the name."""
        return isinstance(self.patch, Patch) and self.patch.name.startswith(f"{self.provenance.plugin}.")


def select_patches(name: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that ``name`` means: a patch, a legacy name, a target, a plugin, or ``*`` for all.

    Raises:
        UnknownName: it means none of them; the message has the nearest name.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import Candidate, Provenance, select_patches
        >>> patch = pc.Patch("shop.price", legacy_names="price", changes=pc.Replace("shop:price", len))
        >>> [found.patch.name for found in select_patches("price", [Candidate(patch, Provenance("shop"))])]
        ['shop.price']
    """
    return _match(name, list(candidates))[1]


def _match(name: str, candidates: Sequence[Candidate]) -> tuple[int, list[Candidate]]:
    """Return how specific ``name`` is (0: all, 1: a plugin, 2: patches or a target) and the candidates it means."""
    if name == "*":
        return 0, list(candidates)
    steps = _steps_of_name(name)
    tests: tuple[tuple[int, Callable[[Candidate], bool]], ...] = (
        (2, lambda c: c.patch.name == name),
        (2, lambda c: name in c.patch.legacy_names),
        (2, lambda c: any(steps_of(change.target) == steps for change in c.patch.changes)),
        (1, lambda c: c.provenance.plugin == name),
        (2, lambda c: any(not change.target.path and change.target.module == name for change in c.patch.changes)),
    )
    for rank, test in tests:
        found = [c for c in candidates if test(c)]
        if found:
            return rank, found
    known = [
        n
        for c in candidates
        for n in (*c.patch.names, c.provenance.plugin, *(str(change.target) for change in c.patch.changes))
    ]
    raise UnknownName(f"no patch, legacy name, plugin or target is called {name!r}{did_you_mean(name, known)}", name)


def _steps_of_name(name: str) -> Optional[tuple[Step, ...]]:
    try:
        return steps_of(Target.parse(name))
    except TargetError:
        return None


def steps_of(target: Target) -> tuple[Step, ...]:
    """Return the steps of a target, which are the same for ``a.b:c`` and ``a.b.c``."""
    return (*target.module.split("."), *target.path) if target.module else target.path


def choices_by_patch(
    candidates: Sequence[Candidate], choices: Sequence[Choice], notes: Optional[list[str]]
) -> dict[str, Choice]:
    """Return the choice that decides for each patch, by patch name.

    A choice of a stronger source wins; then the more specific one; if two are equally specific, ``disable`` wins.
    A name that matches nothing is noted in ``notes``, or raises :class:`UnknownName` if ``notes`` is ``None``.
    """
    strongest = max((choice.strength or 0 for choice in choices), default=0)
    ranked = []
    named = {c.patch.name: [c] for c in candidates}
    for choice in choices:
        try:
            rank, matched = (2, named[choice.name]) if choice.name in named else _match(choice.name, candidates)
        except UnknownName as error:
            if notes is None:
                raise UnknownName(f"{choice.origin}: {error}", error.name) from None
            notes.append(f"{choice.origin} may belong to a plugin that is not loaded: {error}")
        else:
            strength = strongest if choice.strength is None else choice.strength
            ranked.append(((strength, rank, not choice.enable), choice, matched))
    decided: dict[str, Choice] = {}
    for _, choice, matched in sorted(ranked, key=lambda entry: entry[0]):
        decided.update((c.patch.name, choice) for c in matched)
    return decided
