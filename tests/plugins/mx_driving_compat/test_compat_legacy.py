"""API 1.0 of mx_driving.patcher: functions that patch by hand, Patch(function), builders and the patchers they make."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import pickle
from typing import Any

import pytest
from migrations import SHOP, Told, new, no_plugins, restored, shop, told  # noqa: F401

from mx_driving_compat.messages.logger import PatchError, configure_patcher_logging
from mx_driving_compat.patcher import default_patcher_builder
from mx_driving_compat.patcher.legacy import LegacyPatchWrapper, PatcherBuilder
from mx_driving_compat.patcher.mmcv_patch import msda
from mx_driving_compat.patcher.patch import AtomicPatch, LegacyPatch, Patch, PatchResult, PatchStatus
from mx_driving_compat.patcher.patcher import Patcher
from mx_driving_compat.predefined import catalogue
from patchcore.errors import DeclarationError

APPLIED, SKIPPED, FAILED = PatchStatus.APPLIED, PatchStatus.SKIPPED, PatchStatus.FAILED


def sell(module: Any, options: Any) -> None:
    module.tools.price = new


def label(module: Any, options: Any) -> None:
    module.tools.label = options.get("label", new)


class TestLegacyPatch:
    def test_what_the_function_changes_is_found_and_restored(self, restored: Any) -> None:
        patch = LegacyPatch(sell, target_module="shop")
        assert patch.apply() == PatchResult(APPLIED, "sell", "shop", None)
        assert restored.user.cost is restored.shop.price is restored.tools.price is new
        patch.revert()
        assert restored.user.cost("apple") == ("price", "apple", 1)

    def test_a_target_module_is_needed(self) -> None:
        with pytest.raises(ValueError, match=r"LegacyPatch\(sell, target_module='mmcv'\)"):
            LegacyPatch(sell)

    def test_a_module_that_is_not_there_is_skipped(self) -> None:
        called: list[Any] = []
        result = LegacyPatch(lambda *args: called.append(args), target_module="absent.ops").apply()
        assert (result.status, result.reason, called) == (SKIPPED, "module not found", [])

    def test_an_attribute_error_means_that_it_does_not_fit(self, restored: Any) -> None:
        def by_hand(module: Any, options: Any) -> None:
            module.tools.price = new
            module.absent.price = new

        result = LegacyPatch(by_hand, target_module="shop").apply()
        assert (result.status, "has no attribute 'absent'" in result.reason) == (SKIPPED, True)
        assert restored.tools.price is not new  # nothing is left half done

    def test_what_it_applied_by_hand_is_undone_with_it(self, restored: Any) -> None:
        def by_hand(module: Any, options: Any) -> None:
            AtomicPatch("shop.tools.price", new).apply()
            assert module.tools.price is new
            if options:
                raise KeyError("speed")

        failing = LegacyPatch(by_hand, {"fail": True}, target_module="shop")
        assert failing.apply().status is FAILED
        assert restored.tools.price is not new
        with Patcher().add(failing):
            assert restored.tools.price is not new
        patch = LegacyPatch(by_hand, target_module="shop")
        with Patcher().add(patch):
            assert (patch.is_applied, restored.tools.price) == (True, new)
        assert restored.tools.price is not new

    @pytest.mark.parametrize(
        ("qualname", "name"),
        [
            ("build_epoch_runner_patch.<locals>._apply", "epoch_runner"),
            ("epoch_runner_patch.<locals>._apply", "epoch_runner"),
            ("Builders.build_loop_patch.<locals>._apply", "loop"),
            ("something.<locals>._apply", "_apply"),
            ("_apply", "_apply"),
        ],
    )
    def test_a_function_in_a_builder_has_its_name(self, qualname: str, name: str) -> None:
        def _apply(module: Any, options: Any) -> None: ...

        _apply.__qualname__ = qualname
        assert LegacyPatch(_apply, target_module="shop").name == name
        _apply.__patch_name__ = "explicit"  # type: ignore[attr-defined]
        assert LegacyPatch(_apply, target_module="shop").name == "explicit"


class TestPatchOfAFunction:
    """``Patch(function)``, the same name as the base class of API 2.0."""

    def test_it_is_a_wrapper(self) -> None:
        patch = Patch(sell, {"speed": 2}, 3, False)
        assert isinstance(patch, LegacyPatchWrapper)
        assert (patch.func, patch.name, patch.options, patch.priority) == (sell, "sell", {"speed": 2}, 3)
        assert (patch.patch_failure_warning, patch.is_applied, repr(patch)) == (False, False, "Patch(sell)")
        assert (Patch(sell).options, Patch(sell).priority, Patch(sell).patch_failure_warning) == ({}, 0, True)

    def test_it_can_be_sent_to_another_process(self, restored: Any) -> None:
        patch = Patch(sell, {"speed": 2})
        with Patcher({"shop": patch}):
            assert patch.is_applied
            copy = pickle.loads(pickle.dumps(patch))
        assert (copy.func, copy.options, copy.is_applied) == (sell, {"speed": 2}, False)
        assert not patch.is_applied


class TestBuilder:
    def test_the_patcher_restores_everything(self, restored: Any) -> None:
        patch = Patch(sell)
        builder = PatcherBuilder().add_module_patch("shop", patch, Patch(label, {"label": len}))
        with builder.build() as patcher:
            assert patcher.is_applied
            assert patch.is_applied
            assert restored.user.buy("apple") == ("new", "apple")
            assert restored.tools.label is len
            patcher.transfer_to_npu()
        assert not patcher.is_applied

    def test_names_can_be_left_out(self, restored: Any, told: Told) -> None:
        builder = PatcherBuilder().add_module_patch("shop", Patch(sell), Patch(label)).disable_patches("sell")
        with builder.build():
            assert restored.tools.price is not new
            assert restored.tools.label is new
        assert not told.warnings

    def test_the_order_is_by_module_in_order_of_mention_then_by_priority(self, make_package: Any) -> None:
        make_package({"one": "", "two": "", "two.inner": ""})
        order: list[str] = []

        def note(name: str, priority: int = 0) -> LegacyPatchWrapper:
            def function(module: Any, options: Any) -> None:
                order.append(f"{module.__name__} {name}")

            function.__name__ = name
            return Patch(function, priority=priority)

        builder = PatcherBuilder()
        builder.add_module_patch("two", note("a", 1), note("b"))
        builder.add_module_patch("one", note("c", -1))
        builder.add_module_patch("two.inner", note("d"))
        builder.add_module_patch("two", note("e"), note("f", 1), note("g", -5))
        with builder.build():
            pass
        assert order == ["two g", "two b", "two e", "two a", "two f", "one c", "two.inner d"]

    def test_what_does_not_fit_does_not_raise(self, restored: Any, told: Told) -> None:
        def missing(module: Any, options: Any) -> None:
            module.absent.price = new

        def broken(module: Any, options: Any) -> None:
            raise KeyError("speed")

        def ignored(module: Any, options: Any) -> None:
            raise KeyError("nobody asks")

        builder = PatcherBuilder().add_module_patch("shop", Patch(missing), Patch(broken), Patch(sell))
        builder.add_module_patch("shop", Patch(ignored, patch_failure_warning=False)).add_module_patch(
            "absent", Patch(label)
        )
        with builder.build():
            assert restored.tools.price is new
        assert "~ missing (AttributeError: module 'shop' has no attribute 'absent')" in told.summary
        assert "! broken (KeyError: 'speed')" in told.summary
        assert "~ label (module not found)" in told.summary
        assert "ignored" not in told.summary

    def test_what_is_no_patch_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"add_module_patch\('shop', Patch\(sell\)\)"):
            PatcherBuilder().add_module_patch("shop", sell)  # type: ignore[arg-type]


class TestNamesOfBuiltIns:
    """A function of the migration is itself, whatever it is called; a built-in is the predefined patch."""

    def test_called_directly_it_changes_nothing_without_plugins(self) -> None:
        assert msda("mmcv", {}) is None

    def test_the_default_builder_has_the_default_patches(self, told: Told) -> None:
        assert repr(default_patcher_builder) == "<default_patcher_builder>"
        with default_patcher_builder.build():
            pass
        for name in ("deform_conv", "spconv3d", "resnet_maxpool", "nuscenes_metric", "batch_matmul"):
            assert f"~ {name} (" in told.summary
        assert catalogue.load().candidates == []


class TestPatcherOfApi1:
    """``Patcher(module_patches, blacklist, allow_internal_format)``."""

    def test_patches_by_module_and_a_blacklist(self, restored: Any) -> None:
        with Patcher({"shop": [Patch(sell), Patch(label)]}, ["label"], True) as patcher:
            assert restored.tools.price is new
            assert restored.tools.label is not new
            assert patcher.internal_format is True
        with Patcher({"shop": Patch(label)}, allow_internal_format=False):
            assert restored.tools.label is new


def test_a_failure_that_is_to_raise_leaves_the_process_as_it_was(restored: Any) -> None:
    def broken(module: Any, options: Any) -> None:
        module.tools.label = new
        raise KeyError("speed")

    configure_patcher_logging(on_fail="exception")
    patcher = PatcherBuilder().add_module_patch("shop", Patch(sell), Patch(broken)).build()
    with pytest.raises(PatchError, match="broken"):
        patcher.apply()
    assert not patcher.is_applied
