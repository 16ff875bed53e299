"""A plugin holds patches back: ``before_apply`` returns ``Wait``, and ``Patcher.proceed`` applies them."""

from __future__ import annotations

import importlib
import statistics
from typing import Any

import patchcore as pc


class Holding:
    """Holds the patches of these names back."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.ended: list[str] = []

    @pc.hookimpl
    def before_apply(self, patch: pc.Patch, planning: bool) -> Any:
        if patch.name in self.names:
            return pc.Wait("waits for the bell", ended=lambda: self.ended.append(patch.name))
        return None


def patcher_of(holding: Holding, *patches: pc.Patch) -> pc.Patcher:
    patcher = pc.Patcher(patches)
    patcher.plugins.add(holding, "bell")
    return patcher


MEAN = pc.Patch("mean", pc.Replace("statistics:mean", min), required=True)


def test_a_patch_that_is_held_back_is_pending_until_it_may_proceed() -> None:
    original, holding = statistics.mean, Holding("mean")
    patcher = patcher_of(holding, MEAN)
    assert [(entry.verdict, entry.reason) for entry in patcher.plan()] == [("apply", "waits for the bell")]
    with patcher:
        record = patcher.report()["mean"]
        assert (record.status, record.reason, record.changes[0].reason) == ("pending", *["waits for the bell"] * 2)
        assert (statistics.mean, holding.ended) == (original, [])
        patcher.proceed("mean")
        assert (statistics.mean, holding.ended) == (min, ["mean"])
        patcher.proceed("mean", "unknown")
    assert statistics.mean is original


def test_a_revert_ends_the_wait_once() -> None:
    holding = Holding("mean")
    with patcher_of(holding, MEAN) as patcher:
        pass
    patcher.proceed("mean")
    assert holding.ended == ["mean"]
    assert statistics.mean([1, 3]) == 2


def test_a_module_that_is_imported_meanwhile_is_no_miss(make_package: Any) -> None:
    make_package({"shop": "def price(): return 'old'", "user": "from shop import price"})
    with patcher_of(Holding("price"), pc.Patch("price", pc.Replace("shop:price", lambda: "new"))) as patcher:
        user = importlib.import_module("user")
        patcher.refresh()
        record = patcher.report()["price"]
        assert (record.status, record.missed, user.price()) == ("pending", False, "old")
        patcher.proceed("price")
        record = patcher.report()["price"]
        assert (record.status, record.reason, user.price()) == ("applied", "", "new")


def test_a_patcher_that_need_not_wait_applies_for_both() -> None:
    holding = Holding("mean")
    waiting = patcher_of(holding, MEAN)
    with waiting:
        with pc.Patcher([MEAN]):
            assert statistics.mean is min
            assert holding.ended == ["mean"]
            assert waiting.report()["mean"].status == "applied"
        assert statistics.mean is min


def test_a_patch_in_force_does_not_wait() -> None:
    holding = Holding("mean")
    with pc.Patcher([MEAN]), patcher_of(holding, MEAN) as patcher:
        assert (patcher.report()["mean"].status, holding.ended) == ("applied", ["mean"])


def test_stubs_of_a_patch_that_waits_are_no_modules_yet() -> None:
    with patcher_of(Holding("stub"), pc.Patch("stub", pc.StubImport("no_such_shop"))) as patcher:
        assert importlib.util.find_spec("no_such_shop") is None
        patcher.proceed("stub")
        assert importlib.import_module("no_such_shop")
