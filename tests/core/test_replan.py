"""Patches that are chosen again while others are in force: by the program's arguments, or by new settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patchcore as pc

SHOP = "def price(): return 'price'\ndef label(): return 'label'"


@pytest.fixture
def shop(make_package: Any) -> Any:
    make_package({"shop": SHOP})
    import shop

    yield shop
    pc.configure(None)


def tagged(tag: str) -> Any:
    return lambda original: f"{tag}({original()})"


def chosen(name: str, **declared: Any) -> pc.Patch:
    when = lambda arguments: name in arguments.features  # noqa: E731
    return pc.Patch(name, pc.Wrap("shop:price", tagged(name)), when=when, **declared)


def features(*names: str) -> SimpleNamespace:
    return SimpleNamespace(features=names)


def test_a_patch_waits_for_the_arguments_of_the_program(shop: Any) -> None:
    with pc.Patcher([chosen("a")], strict=True) as patcher:
        record = patcher.report()["a"]
        assert (record.status, shop.price()) == ("skipped", "price")
        assert "patchcore.configure(arguments)" in record.reason
        pc.configure(features("a"))
        assert (patcher.report()["a"].status, shop.price()) == ("applied", "a(price)")
        pc.configure(features())
        record = patcher.report()["a"]
        assert (record.status, record.reason, shop.price()) == ("skipped", "its when condition is false", "price")


def test_arguments_that_are_there_already_decide_at_once(shop: Any) -> None:
    pc.configure(features("a"))
    with pc.Patcher([chosen("a")]):
        assert shop.price() == "a(price)"
    assert shop.price() == "price"


def test_a_required_patch_may_wait_and_must_fit_then(shop: Any) -> None:
    with pc.Patcher([chosen("a", required=True)]) as patcher:
        pc.configure(features("a"))
        assert shop.price() == "a(price)"
        with pytest.raises(pc.PatchError, match=r"patch a .* cannot be applied: its when condition is false"):
            pc.configure(features())
        assert (patcher.applied, shop.price()) == (False, "price")


def test_a_condition_without_a_parameter_gets_none(shop: Any) -> None:
    class Condition:
        def holds(self, *, strict: bool = True) -> bool:
            return strict

        def __call__(self, arguments: Any) -> bool:
            return "a" in arguments.features

    plain = pc.Patch("plain", pc.Replace("shop:label", len), when=Condition().holds)
    default = pc.Patch("default", pc.Wrap("shop:label", tagged("x")), when=lambda on=True: on, after=plain)
    needing = pc.Patch("needing", pc.Wrap("shop:price", tagged("x")), when=Condition())
    pc.configure(features())
    assert [entry.verdict for entry in pc.Patcher([plain, default, needing]).plan()] == ["apply", "apply", "skipped"]


def test_a_condition_that_fails_with_the_arguments_is_a_failure(shop: Any) -> None:
    with pc.Patcher([chosen("a")]) as patcher:
        pc.configure(SimpleNamespace())
        record = patcher.report()["a"]
    assert record.status == "failed"
    assert "has no attribute 'features'" in record.reason


def test_a_disabled_patch_is_reverted_and_an_enabled_one_is_applied(shop: Any) -> None:
    patches = [
        pc.Patch("a", pc.Wrap("shop:price", tagged("a"))),
        pc.Patch("b", pc.Replace("shop:label", lambda: "new")),
    ]
    label = shop.label
    with pc.Patcher(patches, disable="b") as patcher:
        report = patcher.disable("a").enable("b").replan()
        assert [(record.name, record.status) for record in report.patches] == [("a", "skipped"), ("b", "applied")]
        assert (shop.price(), shop.label()) == ("price", "new")
    assert shop.label is label


def test_the_winner_of_a_conflict_changes_places(shop: Any) -> None:
    one = pc.Patch("one", pc.Replace("shop:price", lambda: "one"), when=lambda arguments: arguments.features != ())
    two = pc.Patch("two", pc.Replace("shop:price", lambda: "two"))
    with pc.Patcher([one, two]) as patcher:
        assert shop.price() == "two"
        pc.configure(features("one"))
        assert (shop.price(), patcher.report()["two"].status) == ("one", "failed")
        pc.configure(features())
        assert (shop.price(), patcher.report()["two"].status) == ("two", "applied")


def test_a_patch_that_another_patcher_holds_stays_in_force(shop: Any) -> None:
    patch = pc.Patch("a", pc.Wrap("shop:price", tagged("a")))
    with pc.Patcher([patch]), pc.Patcher([patch]) as second:
        second.disable("a").replan()
        assert shop.price() == "a(price)"
    assert shop.price() == "price"


def test_a_replan_before_apply_or_after_revert_applies_nothing(shop: Any) -> None:
    patcher = pc.Patcher([pc.Patch("a", pc.Wrap("shop:price", tagged("a")))])
    assert patcher.replan().patches == ()
    patcher.apply()
    reverted = patcher.revert()
    assert patcher.replan() == reverted
    assert shop.price() == "price"


def test_a_pending_patch_that_is_left_out_is_not_applied_by_the_import(make_package: Any) -> None:
    make_package({"shop": SHOP})
    with pc.Patcher([pc.Patch("a", pc.Wrap("shop:price", tagged("a")))]) as patcher:
        assert patcher.report()["a"].status == "pending"
        patcher.disable("a").replan()
        import shop

        assert shop.price() == "price"


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sets(st.sampled_from("abc")), max_size=4), st.permutations("abc"))
def test_after_each_replan_patches_stack_as_if_they_had_been_applied_at_once(
    choices: list[set[str]], order: list[str]
) -> None:
    import statistics

    original = statistics.mean

    def chosen(name: str) -> pc.Patch:
        wrapper = lambda original, data: original(data) + name  # noqa: E731
        return pc.Patch(name, pc.Wrap("statistics:mean", wrapper), when=lambda chosen: name in chosen)

    base = pc.Patch("base", pc.Replace("statistics:mean", lambda data: "new"), when=lambda chosen: len(chosen) != 1)
    try:
        with pc.Patcher([*map(chosen, order), base], order="listed"):
            for each in ({}, *choices):
                pc.configure(each)
                if len(each) != 1:
                    assert statistics.mean([1]) == "new" + "".join(name for name in order if name in each)
    finally:
        pc.configure(None)
    assert statistics.mean is original
    assert statistics.mean([1, 3]) == 2
