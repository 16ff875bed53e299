"""bisection.py: the sets of patches that fail, found by trying."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patchcore as pc
from patchcore.builtin.bisect.bisection import Search, dependencies, minimise

SIZES = st.integers(1, 24)


@st.composite
def planted(draw: Any) -> tuple[list[int], frozenset[int]]:
    """Numbers, and some of them that fail together."""
    items = list(range(draw(SIZES)))
    return items, frozenset(draw(st.lists(st.sampled_from(items), min_size=1, unique=True)))


class TestMinimise:
    @given(planted())
    def test_finds_what_fails_only_together(self, case: tuple[list[int], frozenset[int]]) -> None:
        items, culprits = case
        assert minimise(items, culprits.issubset) == sorted(culprits)

    @given(SIZES, st.integers())
    def test_with_any_one_left_out_of_the_result_it_passes_however_sets_behave(self, size: int, seed: int) -> None:
        def fails(tried: Collection[int]) -> bool:
            if len(tried) in (0, size):
                return len(tried) == size
            return random.Random(f"{seed} {sorted(tried)}").random() < 0.4

        found = minimise(range(size), fails)
        assert found == sorted(found)
        assert fails(found)
        assert len(found) == 1 or not any(fails([other for other in found if other != item]) for item in found)

    def test_goes_about_it_as_the_paper_does(self) -> None:
        """1, 7 and 8 of 1 to 8: halves, quarters, all but a quarter, then thirds of what is left, and so on."""
        asked = []

        def fails(tried: list[int]) -> bool:
            asked.append("".join(map(str, tried)))
            return {1, 7, 8} <= set(tried)

        assert minimise(range(1, 9), fails) == [1, 7, 8]
        halves, quarters, thirds = "1234 5678", "12 34 56 78 345678 125678", "12 56 78 5678 1278"
        singles = "12 78 1 2 7 8 278 178"
        assert asked == f"{halves} {quarters} {thirds} {singles} 1 7 8 78 18 17".split()


class Trials:
    """Answers whether a set fails, and keeps what it was asked.

    Args:
        culprits: sets each of which makes any set with it fail.
    """

    def __init__(self, *culprits: Collection[str]) -> None:
        self.culprits = [frozenset(names) for names in culprits]
        self.asked: list[frozenset[str]] = []

    def __call__(self, tried: frozenset[str]) -> bool:
        self.asked.append(tried)
        return any(culprit <= tried for culprit in self.culprits)


NAMES = [f"p{number}" for number in range(10)]
SETS = st.lists(st.sets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=4)


class TestSearch:
    @settings(max_examples=50)
    @given(SETS)
    def test_finds_sets_until_the_rest_passes(self, culprits: list[set[str]]) -> None:
        trials = Trials(*culprits)
        search = Search(NAMES, trials)
        search.run()
        minimal = [one for one in trials.culprits if not any(other < one for other in trials.culprits)]
        assert all(frozenset(found) in minimal for found in search.culprits)
        left = frozenset(NAMES).difference(*search.culprits)
        assert not trials(left)
        assert search.suspects == ()

    @settings(max_examples=50)
    @given(SETS)
    def test_asks_about_a_set_once(self, culprits: list[set[str]]) -> None:
        trials = Trials(*culprits)
        Search(NAMES, trials).run()
        assert len(trials.asked) == len(set(trials.asked))
        assert frozenset() not in trials.asked
        assert frozenset(NAMES) not in trials.asked

    @settings(max_examples=50)
    @given(SETS, st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES))))
    def test_tries_no_patch_without_what_it_needs(self, culprits: list[set[str]], needs: dict[str, set[str]]) -> None:
        trials = Trials(*culprits)
        search = Search(NAMES, trials, needs)
        search.run()
        for tried in trials.asked:
            assert all(needs.get(name, set()) <= tried for name in tried)
        for found in search.culprits:
            assert trials(search.with_needs(found))

    def test_what_is_known_when_it_is_interrupted(self) -> None:
        trials = Trials({"p6", "p7"}, {"p1"})

        def interrupted(tried: frozenset[str]) -> bool:
            if len(tried) < 3:
                raise KeyboardInterrupt
            return trials(tried)

        search = Search(NAMES, interrupted)
        with pytest.raises(KeyboardInterrupt):
            search.run()
        assert search.culprits == []
        assert len(search.suspects) < len(NAMES)
        assert trials(frozenset(search.suspects))


class TestDependencies:
    def of(self, *patches: pc.Patch) -> dict[str, set[str]]:
        return {name: needs for name, needs in dependencies(pc.Patcher(patches).plan()).items() if needs}

    def test_a_stub_of_what_is_not_there(self) -> None:
        stub = pc.Patch("stub", [pc.StubImport("nosuch.parts")])
        inside = pc.Patch("inside", [pc.Replace("nosuch.parts.ops:f", print)])
        asking = pc.Patch("asking", [pc.Replace("json:dump", print)], needs=["nosuch.parts"])
        using = pc.Patch("using", [pc.Replace("json:load", "nosuch.parts:load")])
        beside = pc.Patch("beside", [pc.Replace("nosuch.partsbin:f", print)])
        made = self.of(stub, inside, asking, using, beside)
        assert made == {"inside": {"stub"}, "asking": {"stub"}, "using": {"stub"}}

    def test_a_name_that_a_patch_adds(self) -> None:
        added = pc.Patch("added", [pc.Replace("json:Till", object, create=True)])
        injected = pc.Patch("injected", [pc.InjectImport("pprint", "pp", "json")])
        inside = pc.Patch("inside", [pc.Wrap("json.Till.total", print)], after=added)
        after = pc.Patch("after", [pc.Wrap("json:pp", print)], after=injected)
        beside = pc.Patch("beside", [pc.Wrap("json:load", print)], after=["added", "injected"])
        assert self.of(added, injected, inside, after, beside) == {"inside": {"added"}, "after": {"injected"}}
