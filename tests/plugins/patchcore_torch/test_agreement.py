"""agreement.py: ranks that have a store in common tell each other what they do not patch the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import LABEL, PRICE, SHOP, patcher

from patchcore.builtin.shared.manifest import digest, make_manifest
from patchcore_torch.ranks.agreement import Comparison, Generation

Manifest = Mapping[str, Any]


class MemoryStore:
    """A store for ranks that are threads of one process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self.values[key]

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self.values for key in keys)


def compare(
    *manifests: Optional[Manifest],
    patience: float = 20,
    late: Mapping[int, float] = {},
    hosts: Sequence[str] = (),
    store: Optional[MemoryStore] = None,
    generations: Optional[list[Optional[Generation]]] = None,
) -> list[list[str]]:
    """Let the ranks compare their manifests, in threads; return the lines that each got.

    Args:
        manifests: by rank; ``None`` for a rank that is not patched.
        patience: seconds.
        late: by rank, seconds after which it comes to comparing.
        hosts: by rank.
        store: in the place of a new one.
        generations: gets the generation of each rank.
    """
    store = MemoryStore() if store is None else store
    lines: list[list[str]] = [[] for _ in manifests]
    found: list[Optional[Generation]] = [None for _ in manifests]

    def take_part(rank: int, manifest: Manifest) -> None:
        time.sleep(late.get(rank, 0))
        comparison = Comparison(store, rank, len(manifests), manifest, hosts[rank] if hosts else "")
        comparison.run(patience)
        lines[rank] = [*comparison.differences(), *comparison.silent()]
        found[rank] = comparison.generation

    threads = [
        threading.Thread(target=take_part, args=(rank, manifest))
        for rank, manifest in enumerate(manifests)
        if manifest is not None
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    if generations is not None:
        generations[:] = found
    return lines


@pytest.fixture
def shop(make_package: Any) -> None:
    make_package(SHOP)


@pytest.fixture
def price(shop: None) -> Manifest:
    return make_manifest(patcher(PRICE).plan())


@pytest.fixture
def both(shop: None) -> Manifest:
    return make_manifest(patcher(PRICE, LABEL).plan())


def test_ranks_that_patch_the_same_hear_nothing(both: Manifest) -> None:
    assert compare(*[both] * 4) == [[], [], [], []]


LINE = "{} differ{} from rank 0: patch shop.label: no plugin contributes it; on rank 0: apply".format


def test_rank_0_hears_of_every_rank_and_the_others_of_themselves(price: Manifest, both: Manifest) -> None:
    first, *others = compare(both, price, both, price)
    assert first == [LINE("ranks 1, 3", "")]
    assert others == [[LINE("rank 1", "s")], [], [LINE("rank 3", "s")]]


def test_many_ranks_with_the_same_difference_are_one_line(price: Manifest, both: Manifest) -> None:
    first, *_ = compare(both, *[price] * 9)
    assert first == [LINE("ranks 1-9", "")]


def test_hosts_are_named_where_they_differ(price: Manifest, both: Manifest) -> None:
    lines = compare(both, price, price, hosts=["node0", "node0", "node1"])
    text = "patch shop.label: no plugin contributes it; on rank 0: apply"
    assert lines[0] == [f"ranks 1-2 on node0, node1 differ from rank 0 on node0: {text}"]
    assert lines[1:] == [[LINE("rank 1", "s")], [f"rank 2 on node1 differs from rank 0 on node0: {text}"]]


START = "start every rank with patchcore run"


def test_a_rank_that_is_not_patched_is_named(both: Manifest, price: Manifest) -> None:
    first, _, third = compare(both, None, price, patience=0.3)
    assert first == [LINE("rank 2", "s"), f"rank 1 sends no patches to compare; {START}"]
    assert third == [LINE("rank 2", "s")]


def test_the_hosts_that_are_patched_are_named_beside_those_that_are_not(both: Manifest) -> None:
    lines = compare(both, both, None, None, patience=0.3, hosts=["node0", "node0", "", ""])
    assert lines[0] == [f"ranks 2-3 send no patches to compare (ranks 0-1 on node0 do); {START}"]


def test_if_rank_0_is_not_patched_the_others_report_it(both: Manifest) -> None:
    line = f"rank 0 sends no patches to compare; {START}"
    assert compare(None, both, both, patience=0.2) == [[], [line], [line]]


def test_all_the_ranks_that_are_missing_together_are_waited_for_once(both: Manifest, monkeypatch: Any) -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep, time=time.time)
    monkeypatch.setattr("patchcore_torch.ranks.agreement.time", clock)
    comparison = Comparison(MemoryStore(), 0, 4, both)
    assert not comparison.run(60)
    assert comparison.silent() == [f"ranks 1-3 send no patches to compare; {START}"]
    assert 160 <= now[0] < 161


class TestRestarts:
    """The ranks of a restart meet in the store of the last generation, whose keys are still there."""

    def test_what_a_rank_has_lost_since_is_reported(self, price: Manifest, both: Manifest) -> None:
        store = MemoryStore()
        assert compare(both, both, store=store) == [[], []]
        assert compare(both, price, store=store, late={1: 0.2}) == [[LINE("rank 1", "s")], [LINE("rank 1", "s")]]

    @pytest.mark.parametrize("late", [0, 1])
    def test_a_difference_that_has_ended_is_not_reported_again(
        self, price: Manifest, both: Manifest, late: int
    ) -> None:
        store = MemoryStore()
        assert compare(both, price, store=store)[0]
        assert compare(both, both, store=store, late={late: 0.2}) == [[], []]
        assert compare(price, price, store=store, late={late: 0.2}) == [[], []]

    def test_a_rank_that_is_not_patched_any_more_is_reported(self, both: Manifest) -> None:
        store = MemoryStore()
        assert compare(both, both, store=store) == [[], []]
        first, _ = compare(both, None, store=store, patience=0.2)
        assert first == [f"rank 1 sends no patches to compare; {START}"]
        _, second = compare(None, both, store=store, patience=0.2)
        assert second == [f"rank 0 sends no patches to compare; {START}"]

    def test_the_ranks_agree_on_the_number_of_their_generation(self, both: Manifest) -> None:
        store, found = MemoryStore(), []
        groups = set()
        for number in (1, 2, 3):
            compare(*[both] * 3, store=store, late={number % 3: 0.1}, generations=found)
            assert [generation.number for generation in found] == [number] * 3
            groups |= {generation.group for generation in found}
        assert len(groups) == 1

    def test_a_generation_may_have_fewer_ranks(self, both: Manifest, price: Manifest) -> None:
        store = MemoryStore()
        compare(*[price] * 4, store=store)
        assert compare(both, price, store=store, late={0: 0.1}) == [[LINE("rank 1", "s")], [LINE("rank 1", "s")]]


def test_the_clock_of_a_rank_is_compared_with_the_clock_of_rank_0(both: Manifest, monkeypatch: Any) -> None:
    found: list[Optional[Generation]] = []
    clock = SimpleNamespace(
        monotonic=time.monotonic,
        sleep=time.sleep,
        time=lambda: time.time() + (3600 if threading.current_thread().name == "hour ahead" else 0),
    )
    monkeypatch.setattr("patchcore_torch.ranks.agreement.time", clock)

    class Renamed(MemoryStore):
        def check(self, keys: Sequence[str]) -> bool:
            if "patchcore/ranks/confirmed/1" in keys:
                threading.current_thread().name = "hour ahead"
            return super().check(keys)

    compare(both, both, store=Renamed(), generations=found)
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].clock == 0
    assert 3599 < found[1].clock < 3602


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_rank_that_is_late_is_waited_for(price: Manifest, both: Manifest, late: int) -> None:
    assert [len(lines) for lines in compare(both, price, both, late={late: 0.2})] == [1, 1, 0]


def test_what_a_store_raises_when_it_is_gone_is_the_callers(both: Manifest) -> None:
    class Gone(MemoryStore):
        def set(self, key: str, value: str) -> None:
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        Comparison(Gone(), 0, 2, both)


PATCHES = [PRICE, PRICE.evolve(options={"n": 1}), PRICE.evolve(options={"n": 2}), PRICE.evolve(needs=["nosuch"]), LABEL]
MANIFESTS = [
    make_manifest(patcher(*patches, version=version).plan())
    for version in ("1.0", "1.1")
    for patches in ([], *([patch] for patch in PATCHES), [PRICE, LABEL])
]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(MANIFESTS), min_size=1, max_size=5))
def test_every_difference_reaches_rank_0_and_whose_it_is_and_nothing_else_does(manifests: list[Manifest]) -> None:
    first, *others = compare(*manifests)
    assert bool(first) == any(others)
    texts = {line.partition(" from rank 0: ")[2] for line in first}
    assert texts == {line.partition(" from rank 0: ")[2] for lines in others for line in lines}
    for rank, lines in enumerate(others, 1):
        assert bool(lines) == (digest(manifests[rank]) != digest(manifests[0]))
        assert all(line.startswith(f"rank {rank} differs from rank 0: ") for line in lines)
