"""MindSpeed's features on patchcore, with a small stack of the same constructs."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from small_stack import MEGATRON, MINDSPEED

from mindspeed_compat import feature_patches, install, is_installed
from mindspeed_compat.registrations import RivalFeatures
from patchcore import Patcher
from patchcore.errors import PatchError, SettingsError
from patchcore.plugin import patches_behind

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "mindspeed_adapter"
DUMMIES = ["fast_engine", "fast_flag", "fast_optim"]


class Answering(ModuleType):
    """A module like torch.ops: each attribute that is asked for comes into being."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__["asked"] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__["asked"].append(name)
        return None


@pytest.fixture
def stack(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    make_package({**MINDSPEED, **MEGATRON})
    monkeypatch.setitem(sys.modules, "answering", Answering("answering"))
    yield
    left = [name for name in sys.modules if name.partition(".")[0] in DUMMIES]
    for name in left:
        del sys.modules[name]


@pytest.fixture
def installed(stack: None) -> Iterator[None]:
    with install():
        yield
    assert not is_installed()


def adapt(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """Import MindSpeed's adaptor with the arguments of a program; return it."""
    monkeypatch.setattr(sys, "argv", ["pretrain.py", *arguments])
    return importlib.import_module("mindspeed.megatron_adaptor")


def namespaces() -> dict[str, Any]:
    """Return each object in the small Megatron, by name, with those of its classes."""
    found = {}
    for module in [importlib.import_module(name) for name in MEGATRON]:
        name = module.__name__
        for key, value in vars(module).items():
            found[f"{name}:{key}"] = value
            if isinstance(value, type):
                found.update((f"{name}:{key}.{inner}", held) for inner, held in vars(value).items())
    return {name: value for name, value in found.items() if not name.endswith("__builtins__")}


def bodies() -> dict[str, Any]:
    return {name: value.__code__ for name, value in namespaces().items() if hasattr(value, "__code__")}


def owners() -> dict[str, list[str]]:
    """Return the patches that are in force at each target, from the lowest one."""
    found: dict[str, list[str]] = {}
    for patcher in feature_patches():
        for record in patcher.report().patches:
            assert record.status == "applied", record
            for change in record.changes:
                found.setdefault(change.target.replace(":", "."), []).append(record.name)
    return found


class TestWhatAProgramSees:
    @pytest.fixture(params=["patchcore", "mindspeed", "example"])
    def each(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        """The same with MindSpeed's own manager, and with the adapter of the example."""
        request.getfixturevalue("installed" if request.param == "patchcore" else "stack")
        if request.param != "example":
            yield request.param
            return
        monkeypatch.syspath_prepend(str(EXAMPLE))
        adapter = importlib.import_module("adapter")
        with Patcher(adapter.register_patches(), strict=True):
            yield request.param
            adapter.remove_patches(None, None)
        del sys.modules["adapter"]

    @pytest.fixture(params=["patchcore", "mindspeed"])
    def either(self, request: pytest.FixtureRequest) -> str:
        """The same with MindSpeed's own manager."""
        request.getfixturevalue("stack" if request.param == "mindspeed" else "installed")
        return str(request.param)

    def test_is_the_same_with_the_default_arguments(self, each: str, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch)
        training = importlib.import_module("small_megatron.training")
        functions = importlib.import_module("mindspeed.functions")
        assert training.parse(1) == ["parsed", 1]
        assert training.new_name() == "added"
        assert training.NORM is functions.Norm
        assert training.Config().kind() == "npu"
        assert vars(training.Config(size=3, depth=2)) == {"size": 3, "extra": {"size": 3, "depth": 2}}
        assert type("Made", (training.Config,), {}).made_by == "mindspeed"
        assert training.step(1) == "attend(rope(1))"
        assert importlib.import_module("small_megatron.config").HAVE_ENGINE
        with pytest.raises(RuntimeError, match=r"function fast_optim\.scale no exist"):
            importlib.import_module("fast_optim").scale()
        with pytest.raises(ImportError):
            exec("from fast_engine.pytorch import Linear")
        importlib.import_module("fast_flag")

    @pytest.mark.parametrize(
        ("arguments", "result"),
        [
            (["--fused-rope"], "npu_attend(fused(rope(1)))"),
            (["--ring"], "ring(attend(ring(ring_rope(1))))"),
            (["--fused-rope", "--ring"], "ring(npu_attend(ring(fused(ring_rope(1)))))"),
            (["--fused-rope", "--ring", "--forced"], "ring(rival_attend(ring(fused(ring_rope(1)))))"),
        ],
    )
    def test_is_the_same_with_stacks(
        self, each: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str], result: str
    ) -> None:
        adapt(monkeypatch, *arguments)
        assert importlib.import_module("small_megatron.training").step(1) == result

    def test_is_the_same_where_a_place_has_two_spellings(self, either: str, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch, "--spelling")
        assert importlib.import_module("small_megatron.training").Base().reset() == "reset by spelling"

    def test_is_the_same_where_a_module_has_two_names(self, either: str, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch, "--fused-rope", "--module")
        layers = importlib.import_module("small_megatron.layers")
        assert layers.rope(1) == "ring_rope(1)"
        assert importlib.import_module("small_megatron.config").Config().kind() == "wrapped npu"  # named twice

    def test_is_the_same_where_a_feature_adds_to_a_dummy_of_another(
        self, either: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        adapt(monkeypatch, "--engine")
        functions = importlib.import_module("mindspeed.functions")
        assert importlib.import_module("fast_engine.common.recipe").Format is functions.Norm
        assert importlib.import_module("fast_engine.pytorch").Linear is functions.Norm
        assert importlib.import_module("fast_engine.pytorch").LayerNorm.__name__ == "Wrapped"

    def test_is_the_same_where_wrappers_of_one_place_have_several_spellings(
        self, either: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        adapt(monkeypatch, "--spelt-first", "--spelt-second", "--spelt-third", "--spelt-fourth")
        kind = importlib.import_module("small_megatron.config").Config().kind()
        assert kind == "fourth(second(third(first(npu))))"

    def test_is_the_same_after_another_choice(self, either: str, monkeypatch: pytest.MonkeyPatch) -> None:
        adaptor = adapt(monkeypatch, "--fused-rope")
        training = importlib.import_module("small_megatron.training")
        adaptor.repatch(adaptor.arguments(["--ring"]))
        assert training.step(1) == "ring(attend(ring(ring_rope(1))))"
        assert training.parse(1) == ["parsed", 1]

    def test_is_the_same_where_code_of_its_own_registers(self, either: str, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch, "--fused-rope")
        manager = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager
        training = importlib.import_module("small_megatron.training")

        def last_wrapper(function: Any) -> Any:
            return lambda x: f"last({function(x)})"

        manager.register_patch("small_megatron.layers.attend", last_wrapper)
        manager.apply_patches()
        assert training.attend(1) == "last(npu_attend(1))"
        manager.remove_wrappers("small_megatron.layers.attend", "last_wrapper")
        manager.register_patch("small_megatron.layers.attend", lambda x: f"new({x})", force_patch=True)
        manager.apply_patches()
        assert training.attend(1) == "new(1)"


def test_an_import_under_another_name_follows(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpeed's own manager finds names that are equal, and leaves this one behind."""
    training = importlib.import_module("small_megatron.training")
    adapt(monkeypatch, "--fused-rope")
    assert training.rotate(1) == training.rope(1) == "fused(rope(1))"


def test_megatron_before_mindspeed_is_named(
    installed: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not importlib.import_module("small_megatron.config").HAVE_ENGINE
    with caplog.at_level(logging.WARNING, "patchcore"):
        adapt(monkeypatch)
    (message,) = {text for text in caplog.messages if text.startswith("patch mindspeed.requirements_basic: ")}
    assert "small_megatron.config was imported before, and asked for fast_engine" in message
    assert feature_patches()[0].report()["mindspeed.requirements_basic"].missed


class TestOwners:
    def test_each_place_has_its_feature(self, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch, "--fused-rope", "--ring")
        found = owners()
        assert found["small_megatron.training.parse"] == ["mindspeed.megatron_basic"]
        assert found["fast_engine.pytorch.LayerNorm"] == ["mindspeed.requirements_basic"]
        assert found["small_megatron.layers.attend"] == ["mindspeed.fused_rope", "mindspeed.ring"]
        assert found["small_megatron.layers.rope"] == [
            "mindspeed.ring",
            "mindspeed.fused_rope.late",
            "mindspeed.ring.late",
        ]
        targets = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager.patches_info
        assert {target for target in targets if "." in target} <= found.keys()

    def test_a_function_leads_to_the_feature_that_has_put_it_there(
        self, installed: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        adapt(monkeypatch, "--fused-rope", "--ring")
        training = importlib.import_module("small_megatron.training")
        place, features = patches_behind(training.attend)
        assert place == "small_megatron.layers:attend"
        assert features == ("mindspeed.ring",)

    def test_the_report_names_the_class_of_the_feature(self, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch)
        (record,) = [r for r in feature_patches()[1].report().patches if r.name == "mindspeed.megatron_basic"]
        assert record.plugin == "mindspeed"
        entry = feature_patches()[1].plan()["mindspeed.megatron_basic"]
        assert entry.provenance.value == "mindspeed.features_manager:Basic"
        assert entry.patch.summary == "feature megatron_basic (mindspeed.features_manager:Basic)"

    def test_two_features_that_replace_one_target_are_named(
        self, installed: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(RivalFeatures) as caught:
            adapt(monkeypatch, "--fused-rope", "--rival")
        message = str(caught.value)
        assert message.startswith("the patch of attend exist !")
        assert "fused_rope (mindspeed.features_manager:Rope), with mindspeed.functions:attend" in message
        assert "rival (mindspeed.features_manager:Rival), with mindspeed.functions:rival_attend" in message
        assert isinstance(caught.value, RuntimeError)

    def test_so_are_those_of_a_replacement_by_force(
        self, installed: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "patchcore"):
            adapt(monkeypatch, "--fused-rope", "--forced")
        assert (
            "small_megatron.layers.attend: forced (mindspeed.features_manager:Forced) replaces the function of "
            "fused_rope (mindspeed.features_manager:Rope), with force_patch" in caplog.messages
        )
        assert owners()["small_megatron.layers.attend"] == ["mindspeed.forced"]

    def test_so_are_two_spellings_of_one_place(
        self, installed: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "patchcore"):
            adapt(monkeypatch, "--spelling")
        (message,) = [m for m in caplog.messages if "one place" in m]
        assert message.startswith(
            "small_megatron.training.Base.reset and small_megatron.config.Base.reset are one place"
        )

    def test_code_outside_of_all_features_has_its_module(
        self, installed: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        adapt(monkeypatch)
        manager = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager
        manager.register_patch("small_megatron.layers.rope", str)
        manager.apply_patches()
        assert owners()["small_megatron.layers.rope"] == [f"mindspeed.{__name__}"]


class TestRevert:
    ARGUMENTS = ("--fused-rope", "--ring", "--spelling")

    def test_is_exact(self, stack: None, monkeypatch: pytest.MonkeyPatch) -> None:
        before, code = namespaces(), bodies()
        with install():
            adapt(monkeypatch, *self.ARGUMENTS)
            assert namespaces() != before
        after = namespaces()
        assert {name for name in before.keys() | after.keys() if before.get(name, 0) is not after.get(name, 1)} == set()
        assert bodies() == code
        assert not [name for name in sys.modules if name.partition(".")[0] in DUMMIES]

    def test_by_mindspeed_itself_is_exact(self, stack: None, monkeypatch: pytest.MonkeyPatch) -> None:
        before, code = namespaces(), bodies()
        with install():
            adapt(monkeypatch, *self.ARGUMENTS)
            importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager.remove_patches()
            assert namespaces() == before
            assert bodies() == code
            assert feature_patches() == []

    def test_a_repatch_gives_what_the_first_patch_gave(self, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
        adaptor = adapt(monkeypatch, *self.ARGUMENTS)
        first = owners()
        adaptor.repatch(adaptor.arguments([*self.ARGUMENTS]))
        assert owners() == first
        assert (
            importlib.import_module("small_megatron.training").step(1) == "ring(npu_attend(ring(fused(ring_rope(1)))))"
        )

    def test_a_failure_leaves_nothing_of_its_phase(self, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
        before = namespaces()
        with pytest.raises(RuntimeError):
            adapt(monkeypatch, "--fused-rope", "--rival")
        assert namespaces() == before

    def test_no_other_module_is_asked_for_names(self, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch, *self.ARGUMENTS)
        importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager.remove_patches()
        assert sys.modules["answering"].asked == []

    def test_mindspeeds_own_manager_does_ask(self, stack: None, monkeypatch: pytest.MonkeyPatch) -> None:
        """The test above can fail."""
        adapt(monkeypatch, *self.ARGUMENTS)
        assert "attend" in sys.modules["answering"].asked


class TestInstall:
    def test_comes_too_late_after_mindspeed_has_patched(self, stack: None, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch)
        with pytest.raises(SettingsError, match=r"call mindspeed_compat\.install\(\) before"):
            install()
        assert not is_installed()

    def test_may_come_after_its_import(self, stack: None, monkeypatch: pytest.MonkeyPatch) -> None:
        importlib.import_module("mindspeed.patch_utils")
        with install():
            adapt(monkeypatch)
            assert feature_patches()

    def test_a_second_one_changes_nothing(self, installed: None) -> None:
        install().uninstall()
        assert is_installed()

    def test_gives_mindspeed_its_manager_back(self, stack: None) -> None:
        with install():
            manager = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager
            patched = manager.register_patch.__code__
        assert manager.register_patch.__code__ is not patched

    def test_a_target_that_is_gone_names_the_feature(self, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch)
        manager = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager
        manager.register_patch("small_megatron.config.Config.gone", str)
        with pytest.raises(PatchError, match=rf"mindspeed\.{__name__}.*Config has no gone"):
            manager.apply_patches()

    def test_so_does_a_module_that_is_gone(self, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
        adapt(monkeypatch)
        manager = importlib.import_module("mindspeed.patch_utils").MindSpeedPatchesManager
        manager.register_patch("small_megatron.gone.step", str)
        with pytest.raises(ModuleNotFoundError, match=rf"small_megatron\.gone.*which {__name__} "):
            manager.apply_patches()
