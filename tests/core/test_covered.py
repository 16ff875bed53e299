"""A patch whose place a later patch replaces: plan and report say so, also of patches of other Patchers."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import patchcore as pc

pytestmark = pytest.mark.usefixtures("registries")

SHOP = {
    "shop": """
        from math import sqrt
        def price(): return "price"
        class Cart:
            def total(self): return "total"
        class Registry:
            def __init__(self): self._module_dict = {}
        MODELS = Registry()
        """
}


def around(original: Any, *args: Any) -> Any:
    return original(*args)


def new(*args: Any) -> str:
    return "new"


def no(*args: Any) -> bool:
    return False


class Other:
    def total(self) -> str:
        return "other"


PRICE, ROOT, TOTAL = "shop:price", "shop:sqrt", "shop:Cart.total"
BELOW = {
    "body": pc.Wrap(PRICE, around),
    "name": pc.Wrap(ROOT, around),
    "plain": pc.Replace(PRICE, lambda: "below"),
    "method": pc.Wrap(TOTAL, around),
    "entry": pc.Register("shop:MODELS", dict, name="Cart"),
}
COVERED = [
    ("body", pc.Replace(PRICE, new), "it is called only"),
    ("body", pc.Replace(PRICE, new, everywhere=True), "it is called only"),
    ("name", pc.Replace(ROOT, new), "it is called only"),
    ("plain", pc.Replace(PRICE, new), "it is called only"),
    ("method", pc.Replace(TOTAL, new), "it is called only"),
    ("method", pc.Replace("shop:Cart", Other), "which replaces shop:Cart, unless the replacement inherits"),
    ("entry", pc.Register("shop:MODELS", list, name="Cart"), "it is called only"),
]
NOT_COVERED = [
    ("body", pc.Wrap(PRICE, around)),
    ("body", pc.Replace(PRICE, new, when_call=no)),
    ("plain", pc.Replace(PRICE, factory=lambda below: lambda: below())),
    ("method", pc.Wrap("shop:Cart.__init__", around)),
]


def texts(plan: pc.Plan, name: str) -> list[str]:
    return [remark.text for remark in plan.remarks(plan[name]) if remark.topic == "covered"]


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("apart", [True, False], ids=["two Patchers", "one Patcher"])
@pytest.mark.parametrize(("below", "above", "words"), COVERED)
def test_plan_and_report_name_the_patch_that_covers(
    make_package: Any, below: str, above: pc.Patch, words: str, loaded: bool, apart: bool
) -> None:
    make_package(SHOP)
    if loaded:
        importlib.import_module("shop")
    one, two = pc.Patch("a.below", BELOW[below]), pc.Patch("b.above", above, after="*")
    patchers = [pc.Patcher([one]), pc.Patcher([two])] if apart else [pc.Patcher([one, two])]
    if not apart:
        (text,) = texts(patchers[0].plan(), "a.below")
        assert "is covered by b.above" in text
        assert words in text
    for patcher in patchers:
        patcher.apply()
    importlib.import_module("shop")
    (text,) = patchers[0].report()["a.below"].remarks
    assert "is covered by b.above" in text
    assert words in text
    assert not patchers[-1].report()["b.above"].remarks
    patchers[-1].revert()
    assert not patchers[0].report()["a.below"].remarks
    patchers[0].revert()


@pytest.mark.parametrize(("below", "above"), NOT_COVERED)
def test_what_calls_the_one_below_covers_nothing(make_package: Any, below: str, above: pc.Patch) -> None:
    make_package(SHOP)
    with pc.Patcher([pc.Patch("a.below", BELOW[below]), pc.Patch("b.above", above, after="*")]) as patcher:
        importlib.import_module("shop")
        assert patcher.report().ok
        assert not texts(patcher.plan(), "a.below")
        assert not patcher.report()["a.below"].remarks


def test_a_subclass_in_the_place_of_its_base_covers_no_method(make_package: Any) -> None:
    make_package(SHOP)
    shop = importlib.import_module("shop")
    sub = type("Sub", (shop.Cart,), {})
    patches = [pc.Patch("a", BELOW["method"]), pc.Patch("b", pc.Replace("shop:Cart", sub), after="a")]
    with pc.Patcher(patches) as patcher:
        assert not patcher.report()["a"].remarks


def test_names_that_a_later_patch_keeps_cover_nothing(make_package: Any) -> None:
    make_package({**SHOP, "plug": "from shop import price as saved"})
    importlib.import_module("plug")
    patches = [
        pc.Patch("a", pc.Wrap(PRICE, around), keep="plug:saved"),
        pc.Patch("b", pc.Wrap(PRICE, around), keep="plug:saved", after="a"),
    ]
    with pc.Patcher(patches) as patcher:
        assert not patcher.report()["a"].remarks
