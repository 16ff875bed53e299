"""Patches that stack in the order of a list."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import patchcore as pc


def tagged(tag: str) -> Any:
    return lambda original, *args: f"{tag}({original(*args)})"


def wrapped(name: str, target: str = "shop:price", **declared: Any) -> pc.Patch:
    return pc.Patch(name, pc.Wrap(target, tagged(name)), **declared)


def replaced(name: str, target: str = "shop:price") -> pc.Patch:
    return pc.Patch(name, pc.Replace(target, lambda *args: name))


@pytest.fixture
def shop(make_package: Any) -> Any:
    make_package({"shop": "def price(): return 'price'\nclass Till:\n    def open(self): return 'open'"})
    import shop

    return shop


def test_listed_patches_stack_in_the_order_of_the_list(shop: Any) -> None:
    for order in itertools.permutations("abc"):
        with pc.Patcher(map(wrapped, order), order="listed", strict=True):
            assert shop.price() == "{2}({1}({0}(price)))".format(*order)
        assert shop.price() == "price"


def test_a_listed_replacement_goes_below_wrappers_that_are_listed_before_it(shop: Any) -> None:
    with pc.Patcher([wrapped("a"), replaced("new"), wrapped("b")], order="listed", strict=True):
        assert shop.price() == "b(a(new))"


def test_a_listed_replacement_of_a_class_goes_below_patches_of_its_methods(shop: Any) -> None:
    class Till:
        def open(self) -> str:
            return "new"

    patches = [wrapped("a", "shop.Till.open"), pc.Patch("till", pc.Replace("shop:Till", Till))]
    with pc.Patcher(patches, order="listed", strict=True):
        assert shop.Till().open() == "a(new)"
    assert Till().open() == "new"


def test_two_listed_replacements_of_one_target_are_a_conflict(shop: Any) -> None:
    plan = pc.Patcher([wrapped("a"), replaced("new"), replaced("newer")], order="listed").plan()
    assert [(entry.patch.name, entry.rival) for entry in plan.conflicts] == [("newer", "new")]


def test_listed_patches_that_are_not_applied_order_nothing(shop: Any) -> None:
    patches = [wrapped("a"), wrapped("off", default=False), wrapped("b", priority=-1)]
    with pc.Patcher(patches, order="listed", strict=True):
        assert shop.price() == "b(a(price))"


def test_an_order_that_two_listed_patches_need_both_ways_is_an_error(shop: Any) -> None:
    one = pc.Patch("one", [pc.Replace("shop:price", len), pc.Wrap("shop:Till.open", tagged("x"))])
    two = pc.Patch("two", [pc.Wrap("shop:price", tagged("x")), pc.Replace("shop:Till.open", len)])
    with pytest.raises(pc.PlanError, match="the order of the patches is a cycle"):
        pc.Patcher([one, two], order="listed").plan()


def test_an_order_that_does_not_exist_is_refused() -> None:
    with pytest.raises(pc.DeclarationError, match="order must be 'declared' or 'listed', got 'list'"):
        pc.Patcher([], order="list")
