"""Gives patches the order of a list: adds it to them as ``after``, as an author would declare it."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from patchcore.declare.changes import SlotChange
from patchcore.declare.patch import Patch
from patchcore.declare.target import Step
from patchcore.planning.candidates import Candidate, steps_of

__all__ = ["ORDERS", "stack_as_listed"]

#: The values of ``Patcher(order=)``.
ORDERS = ("declared", "listed")


def stack_as_listed(listed: Iterable[Any]) -> list[Any]:
    """Return the patches with an ``after`` for each other one of their targets, so that they stack as they are listed.

    A later patch goes on top of an earlier one. A replacement goes below a wrapper, and the replacement of a class
    below the patches of its methods, wherever they are listed: on top it would put them out of use. Two replacements of
    one target get no order, so that the plan reports the conflict.

    Args:
        listed: patches and candidates; anything else is returned as it is.
    """
    patches = [each.patch if isinstance(each, Candidate) else each for each in listed]
    after: defaultdict[int, set[str]] = defaultdict(set)
    for one, other in _pairs(patches):
        after[other].add(patches[one].name)
    found = []
    for number, (entry, patch) in enumerate(zip(listed, patches)):
        if number in after:
            earlier = [name for name in sorted(after[number]) if name not in patch.after]
            patch = patch.evolve(after=(*patch.after, *earlier))
            entry = entry._replace(patch=patch) if isinstance(entry, Candidate) else patch
        found.append(entry)
    return found


def _pairs(patches: Sequence[Any]) -> Iterable[tuple[int, int]]:
    """Yield the numbers of two patches of one target, the lower one first."""
    # By steps of a target: which patches change it, with whether they replace it; and which change something inside it.
    changing: defaultdict[tuple[Step, ...], dict[int, bool]] = defaultdict(dict)
    inside: defaultdict[tuple[Step, ...], set[int]] = defaultdict(set)
    for number, patch in enumerate(patches):
        for change in patch.changes if isinstance(patch, Patch) else ():
            if isinstance(change, SlotChange):
                place = steps_of(change.target)
                changing[place][number] = change.covers or changing[place].get(number, False)
                for end in range(1, len(place)):
                    inside[place[:end]].add(number)
    for place, found in changing.items():
        wrapping = [number for number, covers in found.items() if not covers]
        yield from itertools.combinations(wrapping, 2)
        for number in found.keys() - set(wrapping):
            yield from ((number, above) for above in {*wrapping, *inside[place]} if above != number)
