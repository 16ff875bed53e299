"""Patches that need another one, while patches are applied: if the other one fails, they are reverted."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import pytest

import patchcore as pc

FILES = {"shop": "def price(): return 1\ndef label(): return 'label'", "user": "from shop import price"}


def new_price() -> int:
    return 2


PRICE = pc.Patch("shop.price", pc.Replace("shop:price", new_price), needs_patches="shop.other")
BROKEN = pc.Patch("shop.other", pc.Replace("shop:labell", new_price))


@pytest.fixture
def shop(make_package: Any) -> Any:
    make_package({**FILES, "late": "def pay(): return 1"})
    import shop
    import user  # noqa: F401

    return shop


@pytest.mark.parametrize("patches", [(PRICE, BROKEN), (BROKEN, PRICE)], ids=["reverted", "not tried"])
def test_the_failure_of_one_takes_the_other_along(shop: Any, patches: Any, caplog: Any) -> None:
    import user

    before = shop.price
    with caplog.at_level(logging.WARNING, "patchcore"), pc.Patcher(patches) as patcher:
        record = patcher.report()["shop.price"]
        assert record.status == "skipped"
        assert record.reason.startswith("needs patch shop.other, which is failed: ")
        assert "did you mean 'label'?" in record.reason
        assert shop.price is before
        assert user.price is before
        assert patcher.refresh()["shop.price"].status == "skipped"
        assert patcher.applied_plan["shop.price"].verdict == "skipped"
    assert shop.price is before
    assert user.price is before
    assert "patch shop.price (local code) is not applied: needs patch shop.other" in caplog.text


def test_one_that_fails_at_a_later_import_reverts_the_other(shop: Any) -> None:
    late = BROKEN.evolve(changes=(pc.Replace("late:no_such_name", new_price),))
    chain = pc.Patch("shop.label", pc.Replace("shop:label", new_price), needs_patches=PRICE)
    outcomes: list[tuple[str, str]] = []

    class Plugin:
        @pc.hookimpl
        def after_apply(self, patch: pc.Patch, outcome: Any) -> None:
            outcomes.append((patch.name, outcome.status))

    patcher = pc.Patcher([PRICE, late, chain])
    patcher.plugins.add(Plugin(), "demo")
    with patcher:
        assert (shop.price(), shop.label(), patcher.report()["shop.other"].status) == (2, 2, "pending")
        importlib.import_module("late")
        assert (shop.price(), shop.label()) == (1, "label")
        assert patcher.report()["shop.label"].reason.startswith(
            "needs patch shop.price, which is skipped: needs patch shop.other, which is failed: "
        )
    assert outcomes[-3:] == [("shop.price", "skipped"), ("shop.label", "skipped"), ("shop.other", "failed")]


def test_a_required_patch_raises_if_the_one_it_needs_fails(shop: Any) -> None:
    with pytest.raises(pc.PatchError, match=r"shop\.other"):
        pc.Patcher([PRICE.evolve(required=True), BROKEN]).apply()
    assert shop.price() == 1


def test_a_veto_of_one_is_a_veto_of_the_other(shop: Any) -> None:
    class Plugin:
        @pc.hookimpl
        def before_apply(self, patch: pc.Patch) -> Any:
            return pc.Skip("not here") if patch.name == "shop.other" else None

    for patches in ((PRICE, BROKEN), (BROKEN, PRICE)):
        patcher = pc.Patcher(patches)
        patcher.plugins.add(Plugin(), "demo")
        reason = "needs patch shop.other, which is skipped: vetoed by plugin demo: not here"
        assert patcher.plan()["shop.price"].reason == reason
        with patcher:
            assert (patcher.report()["shop.price"].reason, shop.price()) == (reason, 1)


def test_both_come_and_go_when_the_settings_change(shop: Any) -> None:
    other = BROKEN.evolve(changes=(pc.Replace("shop:label", new_price),))
    with pc.Patcher([PRICE, other]) as patcher:
        assert (shop.price(), shop.label()) == (2, 2)
        patcher.disable("shop.other").replan()
        assert (shop.price(), shop.label()) == (1, "label")
        patcher.enable("shop.other").replan()
        assert (shop.price(), shop.label()) == (2, 2)


def test_one_that_comes_later_is_not_applied_after_the_failure(shop: Any) -> None:
    wanted: list[bool] = []
    with pc.Patcher([PRICE.evolve(when=lambda: bool(wanted)), BROKEN]) as patcher:
        assert patcher.report()["shop.price"].reason == "its when condition is false"
        wanted.append(True)
        assert patcher.refresh()["shop.price"].reason.startswith("needs patch shop.other, which is failed: ")
        assert shop.price() == 1
