"""The patches of this repository go together: every pair of them is planned without a conflict.

Conflicts are between two patches, so this holds for every combination, too. That no two names mean one object is told
with the real libraries, by ``tests/openmmlab/test_patches_together.py``.
"""

from __future__ import annotations

import itertools

import hypothesis
import hypothesis.strategies as st
import own_patches
import pytest
from own_patches import EXCLUSIVE, Everything, collect, combinations_of_requests, plan

from patchcore.declare.patch import ANY_PATCH

for module in own_patches.plugin_modules():
    pytest.importorskip(module, reason="needs the plugins of this repository")


@pytest.mark.parametrize("requests", combinations_of_requests(), ids=lambda names: " and ".join(names) or "none")
def test_all_patches_at_once_are_planned_without_a_conflict(requests: tuple[str, ...]) -> None:
    made = plan(collect(requests), Everything())
    assert {entry.patch.name: entry.reason for entry in made if entry.verdict != "apply"} == {
        entry.patch.name: entry.reason
        for entry in made
        if entry.rival is not None and frozenset([entry.patch.name, entry.rival]) in EXCLUSIVE
    }


@pytest.mark.parametrize("requests", [(), tuple(own_patches.REQUESTS)], ids=["by default", "with all requests"])
def test_every_pair_is_planned_without_a_conflict(requests: tuple[str, ...]) -> None:
    environment = Everything()
    exclusive = set()
    for pair in itertools.combinations(collect(requests), 2):
        for entry in plan(pair, environment):
            if entry.verdict != "apply":
                exclusive.add(frozenset(candidate.patch.name for candidate in pair))
                assert entry.patch.conflicts or pair[0].patch.conflicts or pair[1].patch.conflicts, entry.reason
    assert exclusive == EXCLUSIVE


@hypothesis.settings(max_examples=50)
@hypothesis.given(data=st.data())
def test_every_selection_in_every_order_is_planned_in_one_order(data: st.DataObject) -> None:
    candidates = collect(tuple(own_patches.REQUESTS))
    whole = [entry.patch.name for entry in plan(candidates, Everything())]
    some = data.draw(st.lists(st.sampled_from(candidates), unique_by=lambda candidate: candidate.patch.name))
    made = plan(some, Everything())
    applied = {entry.patch.name for entry in made if entry.verdict == "apply"}
    given = {candidate.patch.name for candidate in some}
    assert all(any(frozenset([name, other]) in EXCLUSIVE for other in given) for name in given - applied)
    declared = [
        (before, candidate.patch.name)
        for candidate in candidates
        for before in candidate.patch.after
        if before in given and candidate.patch.name in given
    ]
    order = [entry.patch.name for entry in made]
    assert all(order.index(first) < order.index(second) for first, second in declared)
    assert set(order) <= set(whole)


def test_no_patch_names_one_that_is_not_there_in_its_order() -> None:
    """A misspelt name in ``after``, ``before``, ``conflicts`` or ``needs_patches`` would mean nothing, silently."""
    candidates = collect(tuple(own_patches.REQUESTS))
    known = {ANY_PATCH, *(name for candidate in candidates for name in candidate.patch.names)}
    for candidate in candidates:
        patch = candidate.patch
        assert {*patch.after, *patch.before, *patch.conflicts, *patch.needs_patches} <= known, patch.name
