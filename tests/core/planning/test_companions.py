"""Plans of patches that need other patches: both are applied or none."""

from __future__ import annotations

from typing import Any

import pytest

import patchcore as pc


def patch(name: str, target: str = "", **declared: Any) -> pc.Patch:
    return pc.Patch(name, pc.Replace(target or f"statistics:{name}", min), **declared)


def verdicts(*patches: pc.Patch, **chosen: Any) -> dict[str, str]:
    return {entry.patch.name: entry.verdict for entry in pc.Patcher(patches, **chosen).plan()}


def reason(name: str, *patches: pc.Patch, **chosen: Any) -> str:
    return pc.Patcher(patches, **chosen).plan()[name].reason


NEEDING = patch("mean", needs_patches="median")


def test_a_patch_is_planned_with_the_one_it_needs() -> None:
    median = patch("median")
    assert verdicts(NEEDING, median) == {"mean": "apply", "median": "apply"}
    assert patch("mean", needs_patches=[median]) == NEEDING
    assert verdicts(NEEDING, patch("mode", legacy_names="median")) == {"mean": "apply", "mode": "apply"}


@pytest.mark.parametrize(
    ("declared", "chosen", "expected"),
    [
        ({"requires": "no_such_library"}, {}, "needs patch median, which is skipped: requires no_such_library, "),
        ({"default": False}, {}, "needs patch median, which is not enabled: not in the default set; apply it with"),
        ({}, {"disable": "median"}, "needs patch median, which is not enabled: disabled by disable= (median)"),
        ({"when": lambda: 1}, {}, "needs patch median, which is failed: its when condition returned 1"),
    ],
)
def test_it_is_skipped_if_the_other_one_is_not_applied(declared: Any, chosen: Any, expected: str) -> None:
    patches = NEEDING, patch("median", **declared)
    assert verdicts(*patches, **chosen)["mean"] == "skipped"
    assert reason("mean", *patches, **chosen).startswith(expected)


def test_one_that_nobody_contributes_is_named_with_the_nearest_match() -> None:
    assert (
        reason("mean", patch("mean", needs_patches="medan"), patch("median"))
        == "needs patch 'medan', which no plugin here contributes; did you mean 'median'?"
    )


def test_needs_go_on_and_may_be_a_cycle() -> None:
    chain = patch("mean", needs_patches="median"), patch("median", needs_patches="mode")
    assert verdicts(*chain, patch("mode")) == {"mean": "apply", "median": "apply", "mode": "apply"}
    assert verdicts(*chain, patch("mode", default=False)) == {"mean": "skipped", "median": "skipped", "mode": "off"}
    circle = patch("mean", needs_patches="median"), patch("median", needs_patches="mean")
    assert verdicts(*circle) == {"mean": "apply", "median": "apply"}
    assert verdicts(*circle, disable="mean") == {"mean": "off", "median": "skipped"}


def test_a_conflict_of_the_one_it_needs_leaves_room_for_others() -> None:
    """The patch that is skipped for its need must not exclude a third patch of its target."""
    first, rival = patch("median"), patch("median2", "statistics:median")
    needing = patch("mean", needs_patches="median2")
    third = patch("mean2", "statistics:mean")
    found = verdicts(first, needing, rival, third)
    assert found == {"median": "apply", "mean": "skipped", "median2": "failed", "mean2": "apply"}


def test_a_required_patch_is_refused_if_the_one_it_needs_is_disabled() -> None:
    required = patch("mean", needs_patches="median", required=True)
    with pytest.raises(pc.PatchError, match=r"mean .* cannot be applied: needs patch median, which is not enabled"):
        pc.Patcher([required, patch("median")], disable="median").apply()
