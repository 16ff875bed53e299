"""spelling.py: targets that lead to one place are one place, whichever module is imported first."""

from __future__ import annotations

import importlib
from typing import Any, Callable

import pytest

import patchcore as pc
from patchcore.declare.target import Target
from patchcore.planning.spelling import home_of, unify

pytestmark = pytest.mark.usefixtures("registries")

SHOP = {
    "shop": """
        from shop.core import price as price, Cart, MODELS
        from shop import core as inner, core
        """,
    "shop.core": """
        def price(): return "price"
        class Cart:
            def total(self): return "total"
            class Item:
                def weight(self): return "weight"
        class Big(Cart): pass
        class Registry:
            def __init__(self): self._module_dict = {"Cart": Cart}
        MODELS = Registry()
        """,
    "user": """
        import shop.core as s
        from shop.core import price, Cart as Basket
        """,
}

#: Two spellings of one place, and where that is defined.
SAME = [
    ("shop:price", "shop.core:price", "shop.core:price"),
    ("shop:Cart.total", "shop.core:Cart.total", "shop.core:Cart.total"),
    ("shop:Cart.Item.weight", "shop.core:Cart.Item.weight", "shop.core:Cart.Item.weight"),
    ("shop:inner.price", "shop.core:price", "shop.core:price"),
    ("shop:core.Cart.total", "shop:Cart.total", "shop.core:Cart.total"),
    ("user:s.price", "shop:price", "shop.core:price"),
]
#: What only looks like one place.
OTHER = [
    ("user:price", "shop.core:price"),  # a name that another module gave it
    ("shop.core:Big.total", "shop.core:Cart.total"),  # inherited: a place of its own
    ("shop:Cart.total", "shop.core:Big.total"),
]


def tagged(tag: str) -> Callable[..., str]:
    return lambda original, *args: f"{tag}({original(*args)})"


def wrap(name: str, target: str, **declaration: Any) -> pc.Patch:
    return pc.Patch(name, pc.Wrap(target, tagged(name)), **declaration)


@pytest.fixture(params=[True, False], ids=["loaded", "imported later"])
def loaded(request: Any, make_package: Any) -> bool:
    make_package(SHOP)
    for name in SHOP if request.param else ():
        importlib.import_module(name)
    return bool(request.param)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("one", "other", "home"), SAME)
def test_two_patches_of_one_place_are_a_conflict_in_the_plan(
    loaded: bool, one: str, other: str, home: str, turned: bool
) -> None:
    first, second = (other, one) if turned else (one, other)
    plan = pc.Patcher([wrap("a", first), wrap("b", second)]).plan()
    assert [entry.patch.name for entry in plan.conflicts] == ["b"]
    assert plan["b"].reason.startswith(f"{home} is patched by both a (local code) and b")


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_only_looks_like_one_place_is_none(loaded: bool, one: str, other: str) -> None:
    plan = pc.Patcher([wrap("a", one), wrap("b", other)]).plan()
    assert not plan.conflicts
    assert [str(entry.targets[0]) for entry in plan] == [one, other]


@pytest.mark.parametrize("kinds", ["wrap wrap", "replace wrap"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("one", "other"), [pair[:2] for pair in SAME[:1]] + [("shop:inner.price", "shop:price")])
def test_layers_are_in_the_order_that_is_declared(loaded: bool, one: str, other: str, turned: bool, kinds: str) -> None:
    first, second = (other, one) if turned else (one, other)
    below = wrap("a", first) if kinds == "wrap wrap" else pc.Patch("a", pc.Replace(first, lambda: "new"))
    with pc.Patcher([wrap("b", second, after="a"), below], strict=True) as patcher:
        shop = importlib.import_module("shop")
        expected = "b(a(price))" if kinds == "wrap wrap" else "b(new)"
        assert shop.price() == shop.core.price() == importlib.import_module("user").price() == expected
        assert patcher.report().ok
    assert shop.price is shop.core.price
    assert shop.price() == "price"


def test_an_entry_of_a_registry_is_one_place(loaded: bool) -> None:
    one, other = (pc.Patch(name, pc.Register(f"{name}:MODELS", dict, name="Cart")) for name in ("shop", "shop.core"))
    patcher = pc.Patcher([one, other])
    # loaded, an object does not say where it is defined
    assert [entry.patch.name for entry in patcher.plan().conflicts] == ([] if loaded else ["shop.core"])
    with patcher:
        importlib.import_module("shop")
        assert [record.status for record in patcher.report().patches] == ["applied", "failed"]


def test_a_class_under_another_name_is_one_place(loaded: bool) -> None:
    patcher = pc.Patcher([wrap("a", "shop.core:Cart.total"), wrap("b", "user:Basket.total")])
    assert [entry.patch.name for entry in patcher.plan().conflicts] == (["b"] if loaded else [])
    with patcher:
        importlib.import_module("user")
        assert [record.status for record in patcher.report().patches] == ["applied", "failed"]


def test_a_class_and_a_method_of_it_are_a_conflict_under_two_spellings(loaded: bool) -> None:
    plan = pc.Patcher([pc.Patch("a", pc.Replace("shop:Cart", dict)), wrap("b", "shop.core:Cart.total")]).plan()
    assert [entry.patch.name for entry in plan.conflicts] == ["b"]


def test_a_target_that_nobody_else_changes_keeps_its_spelling(loaded: bool) -> None:
    targets = ["shop:price", "shop:Cart.total", "shop:inner.Big.total"]
    plan = pc.Patcher([wrap(f"p{i}", target) for i, target in enumerate(targets)]).plan()
    assert [str(entry.targets[0]) for entry in plan] == targets


def test_only_targets_that_others_may_mean_are_looked_up_in_sources() -> None:
    targets = ["a:X.forward", "b:Y.forward", "c:f", "d:g", "e:m.f", "h:Net", "i:Net.forward", "j:Z.step", "k:Z.step"]
    asked: list[str] = []
    unify([Target.parse(target) for target in targets], lambda target: asked.append(str(target)))
    assert asked == ["c:f", "e:m.f", "h:Net", "i:Net.forward", "j:Z.step", "k:Z.step"]


def test_a_lazy_module_is_not_woken(make_package: Any) -> None:
    make_package({"lazy": "def __getattr__(name): raise SystemExit"})
    importlib.import_module("lazy")
    target = Target.parse("lazy:found.method")
    assert home_of(target) == target


@pytest.mark.parametrize(
    ("target", "home", "only_in"),
    [("user:s.price", "shop.core:price", True), ("user:Basket.total", "shop.core:Cart.total", False)],
)
def test_a_target_through_a_name_for_another_module_or_class_is_a_finding(
    loaded: bool, target: str, home: str, only_in: bool
) -> None:
    plan = pc.Patcher([wrap("a", target)]).plan()
    (remark,) = plan.remarks(plan["a"])
    assert (remark.text, remark.finding) == (f"{target} is {home}, which changes for the whole program", True)
    assert remark.advice.startswith(f"Write {home!r} if that is meant")
    assert ("only_in='user'" in remark.advice) is only_in


def test_a_second_patch_of_what_a_name_for_a_module_leads_to_is_a_conflict(loaded: bool) -> None:
    plan = pc.Patcher([wrap("a", "user:s.price"), wrap("b", "shop.core:price")]).plan()
    assert [entry.patch.name for entry in plan.conflicts] == ["b"]


def test_a_name_that_another_module_gave_a_function_is_remarked(loaded: bool) -> None:
    plan = pc.Patcher([wrap("a", "user:price")]).plan()
    (remark,) = plan.remarks(plan["a"])
    assert remark.text == "user:price is only a name of shop.core:price, which stays with its other names"
    assert not remark.finding


@pytest.mark.parametrize("spelling", ["shop:price", "shop.core:price"])
@pytest.mark.parametrize("kind", [pc.Wrap, pc.Replace])
@pytest.mark.parametrize("turned", [False, True])
def test_a_patch_of_what_a_name_stands_for_needs_an_order(loaded: bool, spelling: str, kind: Any, turned: bool) -> None:
    home = pc.Patch("home", kind(spelling, lambda *args: "home"))
    patches = [home, wrap("name", "user:price")]
    plan = pc.Patcher(patches[::-1] if turned else patches).plan()
    (remark,) = plan.remarks(plan["name"])
    assert remark.text == "user:price is only a name of shop.core:price, which home changes, too"
    assert remark.finding
    assert "after=['home']" in remark.advice
    patcher = pc.Patcher([home, wrap("name", "user:price", after="home")], strict=True)
    plan = patcher.plan()
    (remark,) = plan.remarks(plan["name"])
    assert not remark.finding
    with patcher:
        assert importlib.import_module("user").price() == "name(home)"
        assert importlib.import_module("shop").price() == "home"


@pytest.mark.parametrize("target", ["shop:price", "shop:Cart.total", "shop:core.price", "os:path.join", "user:missing"])
def test_other_targets_have_no_remark(loaded: bool, target: str) -> None:
    plan = pc.Patcher([wrap("a", target)]).plan()
    assert not plan.remarks(plan["a"])
