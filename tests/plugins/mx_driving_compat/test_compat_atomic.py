"""AtomicPatch of the mx_driving.patcher API: one attribute replaced or wrapped, and restored."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from migrations import Told, assert_identical, new, no_plugins, shop, spaces, told  # noqa: F401

from mx_driving_compat.patcher.patch import AtomicPatch, PatchResult, PatchStatus
from mx_driving_compat.patcher.patcher import Patcher

APPLIED, SKIPPED, FAILED = PatchStatus.APPLIED, PatchStatus.SKIPPED, PatchStatus.FAILED


@pytest.fixture
def applied(shop: SimpleNamespace) -> Iterator[Any]:
    """Return a function that applies a patch by itself; at the end all are reverted and everything is as before."""
    before = spaces(shop.shop, shop.tools, shop.user)
    patches: list[AtomicPatch] = []

    def apply(*args: Any, **kwargs: Any) -> PatchResult:
        patches.append(AtomicPatch(*args, **kwargs))
        return patches[-1].apply()

    yield apply
    for patch in reversed(patches):
        patch.revert()
    assert_identical(spaces(shop.shop, shop.tools, shop.user), before)


class TestDeclaring:
    def test_a_replacement_or_a_wrapper_is_needed(self) -> None:
        with pytest.raises(ValueError, match=r"AtomicPatch\('shop.tools.price'\).* target_wrapper="):
            AtomicPatch("shop.tools.price")

    @pytest.mark.parametrize("path", ["shop..price", ".price", "shop.tools.", "shop.to ols.price"])
    def test_a_malformed_path_does_not_take_the_others_along(self, shop: SimpleNamespace, path: str) -> None:
        bad = AtomicPatch(path, new)
        with Patcher().add(AtomicPatch("shop.tools.label", new), bad):
            assert shop.tools.label("apple") == ("new", "apple")
            assert not bad.is_applied

    def test_a_patch_can_be_sent_to_another_process(self, shop: SimpleNamespace) -> None:
        patch = AtomicPatch("shop.tools.price", new)
        with Patcher().add(patch):
            copy = pickle.loads(pickle.dumps(patch))
            assert patch.is_applied
        assert (copy.target, copy.replacement, copy.is_applied) == ("shop.tools.price", new, False)


class TestReplacing:
    def test_the_replacement_itself_is_in_the_place(self, applied: Any, shop: SimpleNamespace) -> None:
        assert applied("shop.tools.price", new) == PatchResult(APPLIED, "shop.tools.price", "shop", None)
        assert shop.tools.price is new

    def test_a_re_export_may_be_named_as_an_alias(self, applied: Any, shop: SimpleNamespace) -> None:
        applied("shop.tools.price", target_wrapper=twice, aliases=["shop.price", "user.cost", "absent.price"])
        assert shop.shop.price is shop.tools.price is shop.user.cost
        assert shop.tools.price("apple") == ("twice", ("price", "apple", 1))

    def test_the_target_decides_and_not_its_aliases(self, applied: Any, shop: SimpleNamespace) -> None:
        assert applied("shop.tools.price", new, aliases=["shop.tools.prise"]).status is APPLIED
        assert applied("shop.tools.prise", new, aliases=["shop.tools.label"]).status is SKIPPED

    def test_a_text_is_the_path_of_the_replacement(self, applied: Any, shop: SimpleNamespace) -> None:
        assert applied("shop.tools.price", "kernels.price").status is APPLIED
        assert shop.tools.price is importlib.import_module("kernels").price

    def test_a_replacement_that_is_not_there_is_skipped(self, applied: Any, shop: SimpleNamespace) -> None:
        result = applied("shop.tools.price", "kernels.prise")
        assert (result.status, shop.tools.price("apple")) == (SKIPPED, ("price", "apple", 1))
        assert "kernels:prise does not exist" in result.reason
        assert "did you mean 'price'" in result.reason
        assert applied("shop.tools.price", "absent.price").status is SKIPPED

    @pytest.mark.parametrize("value", [0, False, (), 7.5], ids=str)
    def test_values_that_are_no_functions(self, applied: Any, shop: SimpleNamespace, value: Any) -> None:
        assert applied("shop.tools.LIMIT", value).status is APPLIED
        assert shop.tools.LIMIT is value

    def test_a_replacement_wrapper_wraps_the_replacement(self, applied: Any, shop: SimpleNamespace) -> None:
        applied("shop.tools.price", new, replacement_wrapper=twice)
        assert shop.tools.price("apple") == ("twice", ("new", "apple"))
        applied("shop.tools.label", "kernels.price", replacement_wrapper=twice)
        assert shop.tools.label("apple") == ("twice", ("kernel", "apple", 1))


class TestWrapping:
    def test_a_replacement_goes_before_it(self, applied: Any, shop: SimpleNamespace) -> None:
        applied("shop.tools.price", new, target_wrapper=twice)
        assert shop.tools.price is new

    def test_there_is_nothing_to_wrap_in_none(self, applied: Any, shop: SimpleNamespace) -> None:
        assert applied("shop.tools.NOTHING", target_wrapper=twice).reason == "original not found for target_wrapper"


class TestKindsOfTargets:
    """What it is called as stays: methods, static and class methods, properties, items."""

    TILL = "shop.tools.Till"

    @pytest.mark.parametrize("owner", ["Till", "BigTill"])
    @pytest.mark.parametrize("how", ["replace", "wrap", "choose"])
    def test_a_static_method_gets_no_self(self, applied: Any, shop: SimpleNamespace, owner: str, how: str) -> None:
        applied(f"shop.tools.{owner}.static", **ways(how))
        till = getattr(shop.tools, owner)
        assert isinstance(inspect.getattr_static(till, "static"), staticmethod)
        assert till.static("apple") == till().static("apple") == expected(how, ("static", "apple"), "apple")

    def test_items_of_tables(self, applied: Any, shop: SimpleNamespace) -> None:
        assert applied("shop.tools.TABLE.price", 10).status is APPLIED
        assert applied("shop.tools.TABLE.inner.key", 20).status is APPLIED
        assert shop.tools.TABLE == {"price": 10, "inner": {"key": 20}}
        assert "target not found" in applied("shop.tools.TABLE.prise", 10).reason
        assert shop.tools.TABLE == {"price": 10, "inner": {"key": 20}}


class TestLastOnTop:
    """Several patches on one slot: the last is on top, and has the one below as its original."""

    def test_applying_a_patch_again_changes_nothing(self, shop: SimpleNamespace) -> None:
        patch = AtomicPatch("shop.tools.price", target_wrapper=twice)
        assert [patch.apply().status, patch.apply().status] == [APPLIED, APPLIED]
        assert shop.tools.price("apple") == ("twice", ("price", "apple", 1))
        patch.revert()
        assert shop.tools.price("apple") == ("price", "apple", 1)
        assert not patch.is_applied
        patch.revert()  # and neither does reverting it again


class TestRuntimeCheck:
    def test_it_chooses_at_each_call(self, applied: Any, shop: SimpleNamespace) -> None:
        applied("shop.tools.price", new, runtime_check=lambda item, count=1: count > 1)
        assert shop.user.cost("apple") == ("price", "apple", 1)
        assert shop.user.cost("apple", 2) == ("new", "apple", 2)

    def test_where_it_raises_the_original_is_called(self, applied: Any, shop: SimpleNamespace) -> None:
        applied("shop.tools.price", new, runtime_check=lambda *args: 1 / 0)
        assert shop.tools.price("apple") == ("price", "apple", 1)


class TestPrecheck:
    def test_false_skips(self, applied: Any, shop: SimpleNamespace) -> None:
        result = applied("shop.tools.price", new, precheck=lambda: False)
        assert (result.status, result.reason) == (SKIPPED, "precheck failed")
        assert shop.tools.price is not new

    def test_it_gets_what_it_asks_for_by_name(self, applied: Any) -> None:
        got: dict[str, Any] = {}

        def check(target: str, replacement: Any, aliases: list[str], target_wrapper: Any, absent: int = 3) -> bool:
            got.update(locals())
            return True

        applied("shop.tools.price", new, aliases=["shop.price"], precheck=check)
        names = ("target", "replacement", "aliases", "target_wrapper", "absent")
        assert [got[name] for name in names] == ["shop.tools.price", new, ["shop.price"], None, 3]

    def test_a_bug_in_it_is_a_failure(self, applied: Any, shop: SimpleNamespace) -> None:
        result = applied("shop.tools.price", new, precheck=lambda: {}["missing"])
        assert (result.status, result.reason) == (FAILED, "precheck error: KeyError: 'missing'")
        assert applied("shop.tools.price", new, precheck=lambda other: True).status is FAILED
        assert shop.tools.price is not new

    def test_heavy_imports_wait_for_it(self, make_package: Any) -> None:
        make_package({"heavy": "", "heavy.ops": "", "heavy_kernels": ""})
        patch = AtomicPatch("heavy.ops.conv", "heavy_kernels.conv", precheck=lambda: False)
        assert patch.apply().status is SKIPPED
        assert not [name for name in sys.modules if name.startswith("heavy")]


class TestWhatDoesNotFit:
    """Fail-safe: what is not there is skipped, what breaks has failed, and nothing raises."""

    @pytest.mark.parametrize(
        ("path", "reason"),
        [
            ("absent.price", "module not found: absent"),
            ("shop.tools.prise", "target not found: shop.tools:prise; did you mean 'price'?"),
            ("shop.tols.price", "target not found: shop.tols does not exist; did you mean 'tools'?"),
            ("shop.tools.Till.rang", "target not found: shop.tools:Till.rang; did you mean 'ring'?"),
            ("shop.tools.Tull.ring", "target not found: shop.tools.Tull does not exist; did you mean 'Till'?"),
        ],
    )
    def test_a_target_that_is_not_there(self, applied: Any, path: str, reason: str) -> None:
        result = applied(path, new)
        assert result.status is SKIPPED
        assert result.reason == reason

    def test_a_path_without_a_dot(self) -> None:
        result = AtomicPatch("price", new).apply()
        assert result.status is FAILED
        assert "invalid target path 'price'" in result.reason

    def test_a_library_whose_import_has_a_bug(self, make_package: Any) -> None:
        make_package({"broken": "1 / 0", "broken.ops": ""})
        result = AtomicPatch("broken.ops.conv", new).apply()
        assert (result.status, "ZeroDivisionError" in result.reason) == (FAILED, True)

    @pytest.mark.parametrize("wrapper", ["target_wrapper", "replacement_wrapper"])
    def test_a_wrapper_that_raises_leaves_nothing_half_done(
        self, applied: Any, shop: SimpleNamespace, wrapper: str
    ) -> None:
        calls: list[Any] = []

        def fails_the_second_time(function: Any) -> Any:
            calls.append(function)
            if len(calls) > 1:
                raise RuntimeError("no more")
            return lambda *args: args

        replacement = new if wrapper == "replacement_wrapper" else None
        original = shop.tools.price
        result = applied(
            "shop.tools.price", replacement, aliases=["shop.tools.label"], **{wrapper: fails_the_second_time}
        )
        assert (result.status, result.reason) == (FAILED, f"{wrapper} error: RuntimeError: no more")
        assert len(calls) == 2
        assert shop.tools.price is shop.user.cost is original


class TestInfo:
    def test_the_difference_of_the_sources(self, shop: SimpleNamespace) -> None:
        patch = AtomicPatch("shop.tools.price", "kernels.price")
        patch.apply()
        first, *difference = patch.get_info(show_diff=True).split("\n")
        patch.revert()
        assert first == "shop.tools.price: price -> price"
        assert '-def price(item, count=1): return ("price", item, count)' in difference
        assert '+def price(item, count=1): return ("kernel", item, count)' in difference
        assert difference[0].startswith("--- original: price")


def twice(function: Any) -> Any:
    def doubled(*args: Any, **kwargs: Any) -> Any:
        return ("twice", function(*args, **kwargs))

    return doubled


def ways(how: str) -> dict[str, Any]:
    """Return arguments of AtomicPatch, for each way to change something."""
    return {
        "replace": {"replacement": new},
        "wrap": {"target_wrapper": twice},
        "choose": {"replacement": new, "runtime_check": lambda *args: True},
    }[how]


def expected(how: str, original: Any, *args: Any) -> Any:
    return ("twice", original) if how == "wrap" else ("new", *args)
