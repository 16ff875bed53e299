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
from patchcore_torch.ranks.agreement import compare_ranks

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


def compare(*manifests: Optional[Manifest], patience: float = 20, late: Mapping[int, float] = {}) -> list[list[str]]:
    """Let the ranks compare their manifests, in threads; return what each was told.

    Args:
        manifests: by rank; ``None`` for a rank that is not patched.
        patience: seconds.
        late: by rank, seconds after which it comes to comparing.
    """
    store = MemoryStore()
    told: list[list[str]] = [[] for _ in manifests]

    def take_part(rank: int, manifest: Manifest) -> None:
        time.sleep(late.get(rank, 0))
        told[rank] = compare_ranks(store, rank, len(manifests), manifest, patience=patience)

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
    return told


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


def test_rank_0_hears_of_every_rank_and_the_others_of_themselves(price: Manifest, both: Manifest) -> None:
    line = ("rank {} differs from rank 0: patch shop.label: no plugin contributes it; on rank 0: apply").format
    assert compare(both, price, both, price) == [[line(1), line(3)], [line(1)], [], [line(3)]]


def test_a_rank_that_is_not_patched_is_named(both: Manifest, price: Manifest) -> None:
    first, _, third = compare(both, None, price, patience=0.2)
    assert first[0] == "rank 1 sends no patches to compare; start every rank with patchcore run"
    assert first[1:] == third
    assert len(third) == 1


def test_if_rank_0_is_not_patched_the_others_say_so(both: Manifest) -> None:
    line = "rank 0 sends no patches to compare; start every rank with patchcore run"
    assert compare(None, both, both, patience=0.2) == [[], [line], [line]]


def test_all_the_ranks_that_are_missing_together_are_waited_for_once(both: Manifest, monkeypatch: Any) -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("patchcore_torch.ranks.agreement.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    lines = compare_ranks(MemoryStore(), 0, 4, both)
    assert [line.partition(" sends")[0] for line in lines] == ["rank 1", "rank 2", "rank 3"]
    assert 160 <= now[0] < 161


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_rank_that_is_late_is_waited_for(price: Manifest, both: Manifest, late: int) -> None:
    assert [len(lines) for lines in compare(both, price, both, late={late: 0.2})] == [1, 1, 0]


def test_what_a_store_raises_when_it_is_gone_is_the_callers(both: Manifest) -> None:
    class Gone(MemoryStore):
        def set(self, key: str, value: str) -> None:
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        compare_ranks(Gone(), 0, 2, both)


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
    assert first == [line for lines in others for line in lines]
    for rank, lines in enumerate(others, 1):
        assert bool(lines) == (digest(manifests[rank]) != digest(manifests[0]))
        assert all(line.startswith(f"rank {rank} differs from rank 0: ") for line in lines)
