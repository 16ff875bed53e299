"""Finds the patches that make a command fail, by delta debugging over sets of patches; the caller defines failure.

The method is ddmin of A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
Transactions on Software Engineering 28(2), 2002. It makes few assumptions: patches may fail only together, and sets in
between may fail or pass in any way. The result fails, and passes as soon as any one of its patches is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Optional, TypeVar

from patchcore.declare.changes import Change
from patchcore.declare.target import Target
from patchcore.objects.modules import find_module
from patchcore.planning.plan import PlannedPatch

__all__ = ["Search", "dependencies", "minimise"]

T = TypeVar("T")


def minimise(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a smallest part of ``items`` that fails, in their order: with any one left out it passes.

    Args:
        items: fail together; nothing at all passes.
        fails: returns true if some of them fail; may be called with the same ones again.
    """
    items = list(items)
    count = 2
    while len(items) > 1:
        parts = _split(items, count)
        smaller = next((part for part in parts if fails(part)), None)
        if smaller is not None:
            items, count = smaller, 2
            continue
        rests = ([item for item in items if item not in part] for part in parts)
        smaller = next((rest for rest in rests if fails(rest)), None) if count > 2 else None
        if smaller is not None:
            items, count = smaller, count - 1
        elif count == len(items):
            break
        else:
            count = min(len(items), 2 * count)
    return items


def _split(items: list[T], count: int) -> list[list[T]]:
    """Return ``items`` in ``count`` parts of almost the same size."""
    size, more = divmod(len(items), count)
    ends = [(i + 1) * size + min(i + 1, more) for i in range(count)]
    return [items[start:end] for start, end in zip([0, *ends], ends)]


class Search:
    """Looks for every set of patches that fails, one after the other; its results so far can be read at any time.

    Args:
        patches: names, in their order; they fail together.
        fails: returns true if a set of patches fails; called once for each set. The empty set passes.
        needs: per patch, those that it is never tried without.

    Attributes:
        culprits: the sets found so far, each minimal: it fails, and with any one of its patches left out it passes.
        suspects: the smallest set known to have a further one in it; empty when there is none.
    """

    def __init__(
        self,
        patches: Sequence[str],
        fails: Callable[[frozenset[str]], bool],
        needs: Optional[Mapping[str, Collection[str]]] = None,
    ) -> None:
        self.culprits: list[tuple[str, ...]] = []
        self.suspects: tuple[str, ...] = tuple(patches)
        self._patches = tuple(patches)
        self._ask = fails
        self._needs = needs or {}
        self._known: dict[frozenset[str], bool] = {self.with_needs(patches): True, frozenset(): False}

    def run(self) -> None:
        """Look until the patches that are left pass."""
        left = self._patches
        while self._fails(left):
            self.suspects = left
            found = minimise(left, self._fails)
            self.culprits.append(tuple(found))
            without = self.with_dependents(found)
            left = tuple(name for name in left if name not in without)
            self.suspects = ()

    def with_needs(self, names: Iterable[str]) -> frozenset[str]:
        """Return ``names`` with all patches that they need, directly or indirectly."""
        closed: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in closed:
                closed.add(name)
                waiting += self._needs.get(name, ())
        return frozenset(closed)

    def with_dependents(self, names: Iterable[str]) -> frozenset[str]:
        """Return ``names`` and the patches that are never tried without one of them."""
        gone = frozenset(names)
        return gone.union(name for name in self._patches if not gone.isdisjoint(self.with_needs([name])))

    def _fails(self, names: Collection[str]) -> bool:
        tried = self.with_needs(names)
        if tried not in self._known:
            self._known[tried] = self._ask(tried)
        if self._known[tried] and len(names) < len(self.suspects):
            self.suspects = tuple(names)
        return self._known[tried]


def dependencies(entries: Iterable[PlannedPatch]) -> dict[str, set[str]]:
    """Return, per patch, the patches without which it would fail or not match if the others are applied.

    Those patches create its target, the module of its replacement, or a module that it ``needs``: a stub of a missing
    module, a name that a library lacks. Or the patch declares them, ``needs_patches``. Patches that only stack
    (``after``, ``before``) can be tried separately.
    """
    entries = list(entries)
    made: dict[Target, str] = {}
    for entry in entries:
        made.update((t, entry.patch.name) for c, t in zip(entry.patch.changes, entry.targets) if _makes(c))
    names = {name: entry.patch.name for entry in entries for name in entry.patch.names}
    return {
        entry.patch.name: {*_makers(entry, made), *(names[name] for name in entry.patch.needs_patches if name in names)}
        - {entry.patch.name}
        for entry in entries
    }


def _makes(change: Change) -> bool:
    if change.provides:
        return not all(map(find_module, change.provides))
    return change.adds and bool(change.target.path)  # changes during an import of a module add nothing to it


def _makers(entry: PlannedPatch, made: Mapping[Target, str]) -> Iterable[str]:
    sources = (change.source for change in entry.patch.changes)
    used = [*entry.targets, *(source.pin() for source in sources if type(source) is Target)]
    used += (Target(name, ()) for name in entry.patch.needs)
    for target in used:
        for place, maker in made.items():
            if _is_inside(target, place):
                yield maker


def _is_inside(target: Target, place: Target) -> bool:
    if not place.path:
        return f"{target.module}.".startswith(f"{place.module}.")
    return target.module == place.module and target.path[: len(place.path)] == place.path
