"""The Patcher of API 2.0 of mx_driving.patcher: what it applies and in which order, leaves out, and says."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any, Optional

import pytest
from migrations import (  # noqa: F401
    SHOP,
    Told,
    assert_identical,
    new,
    no_plugins,
    restored,
    shop,
    spaces,
    told,
    wrapping,
)

import patchcore as pc
from mx_driving_compat.messages.logger import PatchError, configure_patcher_logging
from mx_driving_compat.patcher import default_patcher, mmcv_patch
from mx_driving_compat.patcher.mmcv_patch import (
    DeformConv,
    build_mmcv_epoch_runner_patch,
    build_mmcv_iter_runner_patch,
)
from mx_driving_compat.patcher.patch import (
    AtomicPatch,
    BasePatch,
    LegacyPatch,
    Patch,
    PatchResult,
    PatchStatus,
    RegistryPatch,
)
from mx_driving_compat.patcher.patcher import Patcher
from mx_driving_compat.predefined import catalogue, classes
from mx_driving_compat.predefined.changes import PluginChange
from patchcore.errors import DeclarationError, SettingsError
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import Provenance
from patchcore.settings import Settings
from patchcore_torch.training import steps

APPLIED, SKIPPED, FAILED = PatchStatus.APPLIED, PatchStatus.SKIPPED, PatchStatus.FAILED
PRICE, LABEL = "shop.tools.price", "shop.tools.label"


def wrap(tag: str, target: str = PRICE, **arguments: Any) -> AtomicPatch:
    return AtomicPatch(target, target_wrapper=wrapping(tag), **arguments)


def group(title: str, /, *patches: BasePatch, **attributes: Any) -> Any:
    """Return a class of patches that remembers what it was asked with."""
    asked: list[Any] = []

    def listed(cls: Any, options: Any = None) -> list[BasePatch]:
        asked.append(options)
        return list(patches)

    return type(title, (Patch,), {"patches": classmethod(listed), "asked": asked, **attributes})


class TestBeingInForce:
    def test_the_end_of_the_block_restores_everything(self, restored: Any) -> None:
        patcher = Patcher().add(AtomicPatch(PRICE, new), LegacyPatch(sets_label, target_module="shop.tools"))
        assert not patcher.is_applied
        with patcher as entered:
            assert entered is patcher
            assert patcher.is_applied
            assert restored.tools.price is restored.tools.label is new
        assert not patcher.is_applied
        assert restored.tools.price is not new

    def test_a_second_apply_changes_nothing(self, restored: Any, told: Told) -> None:
        with Patcher().add(wrap("a")) as patcher:
            patcher.apply()
            assert restored.tools.price("apple") == ("a", ("price", "apple", 1))
        assert told.warnings == ["Patches already applied"]

    def test_what_was_applied_by_itself_is_not_reverted(self, restored: Any) -> None:
        patch = wrap("a")
        patch.apply()
        with Patcher().add(patch):
            assert restored.tools.price("apple") == ("a", ("price", "apple", 1))
        assert restored.tools.price("apple") == ("a", ("price", "apple", 1))
        patch.revert()


class TestOrder:
    @pytest.mark.parametrize("fits", [(True, False), (False, True), (True, True), (False, False)], ids=str)
    def test_of_alternatives_the_ones_that_fit_are_applied_once(self, restored: Any, fits: tuple[bool, bool]) -> None:
        wrapper = wrapping("a")
        patches = [AtomicPatch(PRICE, target_wrapper=wrapper, precheck=lambda fit=fit: fit) for fit in fits]
        with Patcher().add(*patches):
            assert [patch.is_applied for patch in patches] == list(fits)
            once = ("a", ("price", "apple", 1)) if any(fits) else ("price", "apple", 1)
            assert restored.tools.price("apple") == once

    def test_classes_that_go_before_others_are_listed(self, restored: Any) -> None:
        order: list[str] = []

        def note(name: str) -> LegacyPatch:
            def function(module: Any, options: Any) -> None:
                order.append(name)

            return LegacyPatch(function, target_module="shop")

        class Later(Patch):
            @classmethod
            def patches(cls, options: Any = None) -> list[BasePatch]:
                order.append("listed")
                return [note("later")]

        early = group("Early", note("early"), apply_before_collect=True)
        with Patcher().add(note("first"), Later, early):
            pass
        assert order == ["early", "listed", "first", "later"]


class TestLibraries:
    def test_one_that_is_not_there_is_looked_for_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []

        class Finder:
            def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
                asked.append(name)

        monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
        names = [f"no_such_shop.tools.{name}" for name in ("price", "label", "stock")]
        patcher = Patcher().add(*(AtomicPatch(name, new) for name in names))
        patcher.add(RegistryPatch("no_such_shop.MODELS", new), LegacyPatch(sets_label, target_module="no_such_shop"))
        patcher.put_in_force(tell=False)
        patcher.revert()
        assert [name for name in asked if name.startswith("no_such_shop")] == ["no_such_shop"]


class TestAdding:
    def test_options_reach_the_class(self, restored: Any) -> None:
        one, two = group("One"), group("Two")
        with Patcher().add(one, options={"speed": 2}).add(two):
            pass
        assert (one.asked, two.asked) == ([{"speed": 2}], [None])

    def test_a_class_without_a_name_has_its_own(self) -> None:
        assert (group("Mine").name, group("Mine", name="mine").name, group("Mine")().name) == ("Mine", "mine", "Mine")

    @pytest.mark.parametrize("item", ["mmcv", pc.Patch, None], ids=["text", "another class", "None"])
    def test_something_else_is_refused(self, item: Any) -> None:
        with pytest.raises(TypeError, match=r"Patcher.add: expected a Patch class or a patch"):
            Patcher().add(item)

    def test_a_patch_of_ones_own_kind(self, restored: Any) -> None:
        class Own(BasePatch):
            name = "shop.tools.LIMIT"

            def apply(self) -> PatchResult:
                restored.tools.LIMIT = 5
                return PatchResult(APPLIED, self.name, "shop")

        own = Own()
        with Patcher().add(own):
            assert (restored.tools.LIMIT, own.is_applied) == (5, True)
        assert restored.tools.LIMIT == 3

    @pytest.mark.parametrize("status", [SKIPPED, FAILED])
    def test_one_that_says_that_it_was_not_applied(self, restored: Any, told: Told, status: PatchStatus) -> None:
        class Own(BasePatch):
            name = "own"

            def apply(self) -> PatchResult:
                return PatchResult(status, self.name, "", "no kernel")

        own = Own()
        with Patcher().add(own):
            assert not own.is_applied
        assert f"{'~' if status is SKIPPED else '!'} own (no kernel)" in told.summary

    def test_apply_all_of_a_class_needs_no_patcher(self, restored: Any) -> None:
        patches = [wrap("a"), AtomicPatch("shop.tools.prise", new)]
        mine = group("Mine", *patches)
        assert [result.status for result in mine.apply_all({"speed": 2})] == [APPLIED, SKIPPED]
        assert mine.asked == [{"speed": 2}]
        assert restored.tools.price("apple") == ("a", ("price", "apple", 1))
        patches[0].revert()

    def test_apply_of_an_instance_says_what_came_of_all(self, restored: Any) -> None:
        patch = wrap("a")
        assert group("Mine", patch, AtomicPatch("shop.prise", new))().apply().reason == "1 patches applied"
        patch.revert()
        assert group("Mine", AtomicPatch("shop.prise", new))().apply().reason == "all patches skipped"
        assert group("Mine", AtomicPatch("price", new))().apply() == PatchResult(FAILED, "Mine", "", "1 patches failed")


class TestDisabling:
    @pytest.mark.parametrize("how", ["class", "name of the class", "legacy name"])
    def test_a_class(self, restored: Any, told: Told, how: str) -> None:
        mine = group("Mine", wrap("a"), legacy_name="old_name")
        with Patcher().add(mine).disable({"class": mine, "name of the class": "Mine", "legacy name": "old_name"}[how]):
            assert restored.tools.price("apple") == ("price", "apple", 1)
        assert mine.asked == []  # it may import what it patches
        assert not told.warnings

    @pytest.mark.parametrize("how", ["patch", "target"])
    def test_one_patch_of_a_class(self, restored: Any, told: Told, how: str) -> None:
        patch = wrap("a")
        with Patcher().add(group("Mine", patch, wrap("b", LABEL))).disable(patch if how == "patch" else PRICE):
            assert restored.tools.price("apple") == ("price", "apple", 1)
            assert restored.tools.label("apple") == ("b", ("label", "apple"))
            assert "~ shop.tools.price (disabled)" in told.summary
        assert not told.warnings

    def test_a_predefined_patch_that_was_not_added_is_known(self, told: Told) -> None:
        with Patcher().disable("dc", "deform_conv", "transfer_to_npu", "msda", DeformConv):
            pass
        assert not told.warnings

    def test_a_typo_is_warned_about(self, restored: Any, told: Told) -> None:
        with Patcher().add(wrap("a")).disable("shop.tools.prise", "defrom_conv", "nothing_like_it"):
            assert restored.tools.price("apple") == ("a", ("price", "apple", 1))
        assert told.warnings == [
            "disable('defrom_conv'): there is no such patch; did you mean 'deform_conv'?",
            "disable('nothing_like_it'): there is no such patch",
            "disable('shop.tools.prise'): there is no such patch; did you mean 'shop.tools.price'?",
        ]

    def test_what_is_no_name_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"Patcher.disable: expected a name, a Patch class or a patch"):
            Patcher().disable(3)  # type: ignore[arg-type]


class TestConflicts:
    def test_adding_both_warns_and_applying_both_raises(self, restored: Any, told: Told) -> None:
        one, two = group("One", wrap("a")), group("Two", wrap("b"), conflicts_with=("One",))
        patcher = Patcher().add(one, two)
        (warning,) = told.warnings
        assert warning.startswith("Patch 'Two' conflicts with already-enabled patch 'One'.\n")
        assert "  patcher.disable('One').add(Two)" in warning
        with pytest.raises(DeclarationError, match="Patch conflict: 'Two' conflicts with 'One'"):
            patcher.apply()
        assert not patcher.is_applied
        assert one.asked == two.asked == []


class TestFailures:
    """Nothing raises by default; what fails is undone by itself; ``exception`` leaves the process as it was."""

    def broken(self) -> list[Any]:
        return [wrap("a"), AtomicPatch(LABEL, new, precheck=lambda: 1 / 0), wrap("c", "shop.tools.Till.ring")]

    @pytest.mark.parametrize("action", ["exception", "exit"])
    def test_none_is_where_a_failure_is_to_raise(self, restored: Any, action: Any) -> None:
        before = spaces(restored.shop, restored.tools, restored.user)
        configure_patcher_logging(on_fail=action)
        patches = self.broken()
        patcher = Patcher().skip_import("absent_library").add(*patches)
        with pytest.raises(PatchError if action == "exception" else SystemExit):
            patcher.apply()
        assert_identical(spaces(restored.shop, restored.tools, restored.user), before)
        assert (patcher.is_applied, [patch.is_applied for patch in patches]) == (False, [False] * 3)
        with pytest.raises(ImportError):
            importlib.import_module("absent_library")
        del patches[1].precheck
        patches[1].precheck = None
        with patcher:  # it can be applied when the cause is gone
            assert restored.tools.label is new


class TestSummary:
    def test_by_package_and_patch(self, restored: Any, told: Told) -> None:
        patcher = Patcher().add(group("Mine", wrap("a"), AtomicPatch("shop.tools.prise", new)))
        patcher.add(wrap("b", LABEL), AtomicPatch("absent.ops.conv", new)).disable(LABEL)
        with patcher:
            lines = told.summary.splitlines()
        applied = lines.index("  Applied Patches:")
        assert lines[applied + 1 : applied + 4] == ["    [shop]", "      Mine:", "        + shop.tools.price"]
        text = "\n".join(lines)
        assert "      Mine:\n        ~ shop.tools.prise (target not found: shop.tools:prise; did you mean " in text
        assert "    [absent]\n      absent.ops.conv:\n        ~ absent.ops.conv (module not found: absent)" in text
        assert "      shop.tools.label:\n        ~ shop.tools.label (disabled)" in text


class TestPrintInfo:
    def test_before_and_after_it_was_applied(self, restored: Any, told: Told) -> None:
        patcher = Patcher().add(AtomicPatch(PRICE, new), AtomicPatch(LABEL, new)).disable(LABEL)
        assert patcher.print_info() is patcher
        assert told.at("INFO")[-1].splitlines() == [
            "=" * 80,
            "Patcher Info (1 module, 2 patches)",
            "=" * 80,
            "",
            "[shop] 2 patches",
            "  [pending] shop.tools.price: <missing> -> new",
            "  [disabled] shop.tools.label: <missing> -> new",
        ]
        assert restored.tools.price is not new
        with patcher:
            patcher.print_info()
            assert "  [applied] shop.tools.price: price -> new" in told.at("INFO")[-1]

    def test_before_the_libraries_are_imported(
        self, make_package: Any, told: Told, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A predefined patch waits for its library; only then it is applied."""
        make_package({**SHOP, "later": "def price(): return 'price'\ndef label(): return 'label'"})
        patches = (
            pc.Patch("acme.deform_conv", [pc.Replace("later:price", new)], legacy_names=["deform_conv"]),
            pc.Patch("acme.spconv3d", [pc.Replace("nosuch_x.ops:conv", new)], legacy_names=["spconv3d"]),
            pc.Patch("acme.stream", [pc.Replace("later:prize", new)], legacy_names=["stream"]),
        )
        who = Provenance("acme", "acme-npu", "1.0", "acme")
        found = catalogue.Catalogue([Candidate(patch, who) for patch in patches], Settings())
        monkeypatch.setattr(catalogue, "_loaded", found)
        patcher = Patcher().add(
            DeformConv,
            mmcv_patch.SparseConv3D,
            mmcv_patch.Stream,
            mmcv_patch.Voxelization,
            AtomicPatch("nosuch_y.f", new),
            LegacyPatch(sets_label, target_module="nosuch_z"),
            RegistryPatch("nosuch_r.HOOKS", int, name="Int"),
            AtomicPatch("later.label", new, precheck=lambda: False),
        )

        def said() -> dict[str, tuple[str, str]]:
            patcher.print_info()
            lines = told.at("INFO")[-1].splitlines()
            pairs = zip(lines, [*lines[1:], ""])
            found = ((line.split("] ", 1), more) for line, more in pairs if line.startswith("  ["))
            return {
                name.partition(":")[0].partition(" ")[0]: (status[3:], more.strip() if more.startswith("    ") else "")
                for (status, name), more in found
            }

        unfit = {
            "nosuch_x.ops.conv": ("skipped", "nosuch_x is not installed"),
            "voxelization": (
                "skipped",
                f"no installed plugin contributes it; {pc.install_command('mmcv-npu-patches')}",
            ),
            "nosuch_y.f": ("skipped", "module not found: nosuch_y"),
            "sets_label": ("skipped", "module not found: nosuch_z"),
            "nosuch_r.HOOKS": ("skipped", "registry not found: nosuch_r.HOOKS"),
        }
        before = {**unfit, **dict.fromkeys(("later.price", "later.prize", "later.label"), ("pending", ""))}
        assert said() == before
        patcher.put_in_force()
        waiting = ("pending", "waits for the import of later")
        afterwards = {
            **unfit,
            "later.price": waiting,
            "later.prize": waiting,
            "later.label": ("skipped", "precheck failed"),
        }
        assert {**said(), "sets_label": unfit["sets_label"]} == afterwards
        importlib.import_module("later")
        complete = said()
        assert complete["later.price"] == ("applied", "")
        assert complete["later.prize"][0] == "skipped"
        assert "prize" in complete["later.prize"][1]
        patcher.revert()
        assert said()["later.price"] == ("pending", "")


class TestPredefined:
    """Predefined patches are those of plugins."""

    @pytest.fixture
    def plugin(self, monkeypatch: pytest.MonkeyPatch) -> pc.Patch:
        """A plugin that contributes deformable convolution, for this library."""
        patch = pc.Patch(
            "acme.deform_conv",
            [pc.Replace("shop.tools:price", "kernels:price"), pc.Wrap("shop.tools:label", tagged)],
            legacy_names=["dc", "deform_conv"],
            options={"speed": 1},
        )
        candidate = Candidate(patch, Provenance("acme", "acme-npu", "1.0", "acme"))
        monkeypatch.setattr(catalogue, "_loaded", catalogue.Catalogue([candidate], Settings()))
        return patch

    def test_once_however_often_it_is_added(self, restored: Any, plugin: pc.Patch) -> None:
        with Patcher().add(DeformConv, DeformConv) as patcher:
            assert restored.tools.label("apple") == ("tagged", ("label", "apple"))
            assert len(list(patcher.applied_patches())) == 4
            with pc.Patcher([plugin]):
                assert restored.tools.label("apple") == ("tagged", ("label", "apple"))

    def test_they_have_what_programs_look_at(self, restored: Any, plugin: pc.Patch) -> None:
        replaced, wrapped = DeformConv.patches()
        assert [isinstance(patch, AtomicPatch) for patch in (replaced, wrapped)] == [True, True]
        assert (replaced.target, wrapped.target) == (replaced.name, wrapped.name) == (PRICE, LABEL)
        assert (replaced.aliases, replaced.is_applied, replaced.runtime_check) == ([], False, None)
        assert replaced.precheck() is wrapped.precheck() is True
        assert replaced.replacement.__module__ == "kernels"
        assert wrapped.replacement is None

    def test_programs_give_them_checks_of_their_own(self, restored: Any, plugin: pc.Patch, told: Told) -> None:
        class Mine(DeformConv):
            name = "mine"

            @classmethod
            def patches(cls, options: Any = None) -> Any:
                replaced, wrapped = super().patches(options)
                replaced.runtime_check = lambda item, count=1: item != "pear"
                wrapped.precheck = lambda target: target != LABEL
                return [replaced, wrapped]

        with Patcher().add(Mine):
            assert restored.tools.price("apple") == ("kernel", "apple", 1)
            assert restored.tools.price("pear") == ("price", "pear", 1)
            assert restored.tools.label("apple") == ("label", "apple")
        assert f"        ~ {LABEL} (precheck failed)" in told.summary
        assert restored.tools.price("apple") == ("price", "apple", 1)
        by_hand = pc.Patch("acme.dc", [pc.Call(sets_label, module="shop.tools")], legacy_names=["dc"])
        change = PluginChange(Candidate(by_hand, Provenance("acme", "acme-npu", "1.0", "acme")), 0)
        with pytest.raises(pc.DeclarationError, match="which has no runtime_check"):
            change.runtime_check = None

    def test_the_default_patcher_has_the_default_ones(self, told: Told) -> None:
        classes = [patch_class for patch_class, _ in default_patcher.selection.classes()]
        with Patcher().add(*classes):  # the default one itself would remember that there are no plugins
            pass
        for name in ("multi_scale_deformable_attention", "ddp", "resnet_add_relu", "numpy_compat", "tensor_index"):
            assert told.summary.count(f"~ {name} (no installed plugin contributes it; ") == 1, name


class TestFunctionsOfPredefinedClasses:
    """Programs call the replacements by the names that mx_driving.patcher has for them."""

    @pytest.mark.parametrize("version", ["1.7.2", "2.1.0", None])
    @pytest.mark.parametrize("patch", [mmcv_patch.Stream, mmcv_patch.DDP])
    def test_precheck_is_for_mmcv_1(self, patch: Any, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(classes, "is_mmcv_v1x", lambda: version is not None and version.startswith("1."))
        assert patch.precheck() is (version == "1.7.2")

    def test_they_are_the_plugins_replacements(self, make_package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        make_package({"mmcv": "", "mmcv.parallel": "", "mmcv.parallel._functions": "def scatter(*a): return list(a)"})
        patches = (
            pc.Patch(
                "acme.stream",
                [
                    pc.Replace(
                        "mmcv.parallel._functions:Scatter.forward",
                        lambda target_gpus, input: ("copied", input),
                        when_call=lambda target_gpus, input: target_gpus != [-1],
                    )
                ],
                legacy_names=["stream"],
            ),
            pc.Patch(
                "acme.ddp_forward",
                [pc.Replace("mmcv.parallel.distributed:MMDistributedDataParallel._run_ddp_forward", new)],
                legacy_names=["ddp_forward"],
            ),
        )
        who = Provenance("acme", "acme-npu", "1.0", "acme")
        found = catalogue.Catalogue([Candidate(patch, who) for patch in patches], Settings())
        monkeypatch.setattr(catalogue, "_loaded", found)
        assert mmcv_patch.Stream.scatter_forward([0], "batch") == ("copied", "batch")
        assert mmcv_patch.Stream.scatter_forward([-1], "batch") == ("batch", [-1], None)
        assert mmcv_patch.DDP.ddp_forward("model", 1, x=2) == ("new", "model", 1)

    def test_without_the_plugin(self) -> None:
        with pytest.raises(ModuleNotFoundError, match=r"Stream: no installed plugin replaces .*\.forward; .*pip"):
            mmcv_patch.Stream.scatter_forward([0], "batch")
        with pytest.raises(ModuleNotFoundError, match=re.escape(pc.install_command("mmcv-npu-patches"))):
            mmcv_patch.DDP.ddp_forward(None)


class TestTraining:
    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"dump_paht": "dump"}, "no option 'dump_paht'; did you mean 'dump_path'"),
            ({"task": "tensor"}, "there is no dump_path"),
            ({"dump_path": "dump", "step": ["x"]}, "expected numbers from 0 on"),
            ({"dump_path": "dump", "task": "overflow_check"}, "needs msprobe: .* -m pip install mindstudio-probe"),
            ([], "is no JSON object"),
        ],
    )
    def test_a_configuration_of_msprobe_is_checked(self, tmp_path: Path, config: Any, message: str) -> None:
        file = tmp_path / "config.json"
        file.write_text(json.dumps(config))
        with pytest.raises(SettingsError, match=message):
            Patcher().with_precision_debugger(config_path=str(file))

    def test_without_msprobe_its_configuration_becomes_a_recording(self, tmp_path: Path) -> None:
        config = {"task": "tensor", "dump_path": str(tmp_path), "step": [0, "2-3"], "rank": [1], "level": "L0"}
        patcher = Patcher().with_precision_debugger(**config, seed=3)
        assert dict(patcher.training.record or ()) == {
            "path": str(tmp_path),
            "steps": "1,3,4",
            "ranks": "1",
            "operators": False,
            "tensors": True,
        }
        assert patcher.training.seed == 3

    def test_a_brake_counts_the_steps_of_the_loops(self, fresh_steps: Any) -> None:
        with Patcher().brake_at(2):
            steps.after_step()
            with pytest.raises(SystemExit) as end:
                steps.after_step()
        assert not end.value.code
        steps.after_step()

    def test_so_does_one_for_each_loop_until_the_block_ends(self, fresh_steps: Any) -> None:
        options = {"enable_brake": True, "brake_step": 2}
        loops = [build_mmcv_epoch_runner_patch(options), build_mmcv_iter_runner_patch(options)]
        for _ in range(2):
            fresh_steps.finished = 0
            with Patcher().add(*loops):
                assert all(loop.is_applied for loop in loops)
                steps.after_step()
                with pytest.raises(SystemExit):
                    steps.after_step()
        steps.after_step()

    def test_loops_of_which_nothing_is_asked(self, told: Told) -> None:
        with Patcher().add(build_mmcv_epoch_runner_patch({})):
            assert "~ mmcv_epoch_runner (neither profiling nor brake is asked for)" in told.summary


def tagged(original: Any, *args: Any) -> Any:
    return ("tagged", original(*args))


def sets_label(module: Any, options: Optional[dict[str, Any]]) -> None:
    module.label = new
