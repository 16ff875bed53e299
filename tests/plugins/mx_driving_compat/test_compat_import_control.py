"""Imports as a patcher of the mx_driving.patcher API changes them: skip, replace, inject; from the call on."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
from migrations import Told, new, no_plugins, told  # noqa: F401

import patchcore as pc
from mx_driving_compat.patcher import replace_with
from mx_driving_compat.patcher.mmcv_patch import DeformConv
from mx_driving_compat.patcher.patch import AtomicPatch
from mx_driving_compat.patcher.patcher import Patcher
from mx_driving_compat.predefined import catalogue
from patchcore.builtin.imports.stubs import StubModule
from patchcore.errors import StubError
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import Provenance
from patchcore.settings import Settings

load = importlib.import_module


@pytest.fixture
def patcher() -> Any:
    """A patcher, whose changes of imports are taken back."""
    made = Patcher()
    yield made
    made.revert()


class TestSkipImport:
    def test_from_the_call_on_it_can_be_imported(self, patcher: Patcher, told: Told) -> None:
        with pytest.raises(ImportError):
            load("flash_attn_x")
        assert patcher.skip_import("flash_attn_x", "spconv_x.pytorch") is patcher
        assert load("flash_attn_x.flash_attention").FlashAttention
        assert load("spconv_x.pytorch") is load("spconv_x").pytorch
        with patcher:
            assert "  Skipped Modules:\n    - flash_attn_x\n    - spconv_x.pytorch" in told.summary
        with pytest.raises(ImportError):
            load("flash_attn_x")
        assert "spconv_x" not in sys.modules

    def test_the_stubs_are_loaded_at_once(self, patcher: Patcher) -> None:
        patcher.skip_import("flash_x.ops.triton").skip_import("flash_x.other", "apex_x")
        for _ in range(2):
            with patcher:
                for name in ("flash_x", "flash_x.ops", "flash_x.ops.triton", "flash_x.other", "apex_x"):
                    assert isinstance(sys.modules[name], StubModule)
                assert sys.modules["flash_x"].ops is sys.modules["flash_x.ops"]
            assert not [name for name in sys.modules if name.startswith(("flash_x", "apex_x"))]

    def test_what_is_installed_is_never_hidden(self, patcher: Patcher, make_package: Any, told: Told) -> None:
        make_package({"lib_x": "VALUE = 1"})
        patcher.skip_import("lib_x")
        assert load("lib_x").VALUE == 1
        assert any("'lib_x') has no effect" in message for message in told.at("DEBUG"))
        assert not told.warnings


class TestFillingStubs:
    """A stub with the few functions that a model calls."""

    def test_an_atomic_patch_fills_a_stub(self, patcher: Patcher) -> None:
        patcher.skip_import("flash_x").add(AtomicPatch("flash_x.ops.conv", new))
        with patcher:
            from flash_x.ops import conv  # type: ignore[import-not-found]

            assert conv("apple") == ("new", "apple")
            with pytest.raises(StubError):
                load("flash_x.ops").pool("apple")

    def test_after_it_was_imported(self, patcher: Patcher, make_package: Any) -> None:
        make_package({"model_x": "from flash_x.ops import conv\nfrom flash_x import ops"})
        patcher.skip_import("flash_x")
        model = load("model_x")
        with patcher.add(AtomicPatch("flash_x.ops.conv", new)):
            assert model.ops.conv is new
            with pytest.raises(StubError):  # a stub that somebody holds stays one, and says so
                model.conv("apple")

    def test_a_predefined_patch_fills_a_stub(self, patcher: Patcher, monkeypatch: pytest.MonkeyPatch) -> None:
        plugin = pc.Patch("deform_conv", [pc.Replace("flash_x.ops.deform:conv", new)], requires=["flash_x"])
        candidate = Candidate(plugin, Provenance("acme", "acme-npu", "1.0", "acme"))
        monkeypatch.setattr(catalogue, "_loaded", catalogue.Catalogue([candidate], Settings()))
        with patcher.skip_import("flash_x").add(DeformConv):
            assert load("flash_x.ops.deform").conv is new
            assert load("flash_x.ops").conv is new  # as packages re-export it


class TestReplaceImport:
    KERNELS = {"kernels_x": "NAME = 'kernels'\ndef conv(x): return ('kernel', x)\n_private = 1\n"}

    def test_by_another_module(self, patcher: Patcher, make_package: Any, told: Told) -> None:
        make_package({**self.KERNELS, "lib_x": "NAME = 'lib'"})
        assert patcher.replace_import("lib_x", "kernels_x") is patcher
        assert load("lib_x").conv("apple") == ("kernel", "apple")
        with patcher:
            assert "  Replaced Imports:\n    * lib_x -> kernels_x" in told.summary
        assert load("lib_x").NAME == "lib"

    @pytest.mark.parametrize("how", ["helper", "base_module", "exports", "keywords"])
    def test_the_ways_to_say_it(self, patcher: Patcher, make_package: Any, how: str) -> None:
        make_package({**self.KERNELS, "lib_x": "NAME = 'lib'"})
        if how == "helper":
            patcher.replace_import("lib_x", replace_with.module("kernels_x", pool=new))
        elif how == "base_module":
            patcher.replace_import("lib_x", base_module="kernels_x", pool=new)
        elif how == "exports":
            patcher.replace_import("lib_x", "kernels_x", exports={"pool": new})
        else:
            patcher.replace_import("lib_x", "kernels_x", pool=new)
        lib = load("lib_x")
        assert (lib.NAME, lib.conv(1), lib.pool, lib._private) == ("kernels", ("kernel", 1), new, 1)
        assert not hasattr(sys.modules["kernels_x"], "pool")

    def test_packages_that_do_not_exist_are_made_at_once(self, patcher: Patcher, make_package: Any) -> None:
        make_package(self.KERNELS)
        patcher.replace_import("absent_x.ops.pool", NAME="pool").replace_import("gone_x.ops.conv", "kernels_x")
        assert [name in sys.modules for name in ("absent_x", "absent_x.ops", "absent_x.ops.pool")] == [True] * 3
        assert sys.modules["absent_x"].ops.pool.NAME == "pool"
        assert [name in sys.modules for name in ("gone_x", "gone_x.ops", "kernels_x")] == [True, True, False]
        assert load("gone_x.ops.conv").NAME == "kernels"
        assert sys.modules["gone_x"].ops.conv is load("gone_x.ops.conv")
        patcher.revert()
        assert not [name for name in sys.modules if name.startswith(("absent_x", "gone_x"))]

    def test_by_one_that_does_not_exist(self, patcher: Patcher, make_package: Any, told: Told) -> None:
        make_package({"lib_x": "NAME = 'lib'"})
        patcher.replace_import("lib_x", "absent_x")
        assert load("lib_x").NAME == "lib"
        assert told.warnings == ["replace_import('lib_x') has no effect: there is no module absent_x"]

    def test_what_is_said_twice_is_refused(self, patcher: Patcher) -> None:
        with pytest.raises(ValueError, match="'one' and base_module='two' are given"):
            patcher.replace_import("lib_x", "one", base_module="two")
        with pytest.raises(ValueError, match="conv both in exports and as a keyword"):
            patcher.replace_import("lib_x", exports={"conv": 1}, conv=2)

    def test_it_is_in_force_again_when_the_patcher_is(self, patcher: Patcher, make_package: Any) -> None:
        make_package({**self.KERNELS, "lib_x": "NAME = 'lib'"})
        patcher.replace_import("lib_x", "kernels_x").replace_import("absent_x.ops", "kernels_x")
        for _ in range(2):
            with patcher:
                assert load("lib_x").NAME == load("absent_x.ops").NAME == "kernels"
            assert load("lib_x").NAME == "lib"
            with pytest.raises(ImportError):
                load("absent_x.ops")


class TestInjectImport:
    LIBRARY = {
        "lib_x": "__all__ = ['conv']\nfrom lib_x.ops import conv",
        "lib_x.ops": "def conv(): return 'conv'\ndef pool(): return 'pool'",
        "user_x": "from lib_x import *\nfrom lib_x import pool",
    }

    def test_a_module_gets_a_name_that_it_lacks(self, patcher: Patcher, make_package: Any, told: Told) -> None:
        make_package(self.LIBRARY)
        assert patcher.inject_import("lib_x.ops", "pool", "lib_x") is patcher
        assert "lib_x" not in sys.modules
        assert load("user_x").pool() == "pool"
        assert "pool" in load("lib_x").__all__
        with patcher:
            assert "  Injected Imports:\n    + lib_x.pool" in told.summary
        assert not hasattr(load("lib_x"), "pool")
        assert load("lib_x").__all__ == ["conv"]

    @pytest.mark.parametrize(("source", "target"), [("absent_x", "lib_x"), ("lib_x.ops", "absent_x")])
    def test_what_is_not_there(self, patcher: Patcher, make_package: Any, told: Told, source: str, target: str) -> None:
        make_package(self.LIBRARY)
        patcher.inject_import(source, "pool", target)
        assert told.at("DEBUG") == [f"inject_import of {target}.pool has no effect: there is no module absent_x"]
        with pytest.raises(ImportError):
            load("user_x")

    def test_the_calls_can_be_repeated_elsewhere(self, patcher: Patcher, make_package: Any) -> None:
        make_package(self.LIBRARY)
        patcher.skip_import("flash_x").inject_import("lib_x.ops", "pool", "lib_x").replace_import(
            "absent_x", "lib_x.ops"
        )
        calls = patcher.imports.calls
        patcher.revert()
        other = Patcher()
        for method, arguments in calls:
            getattr(other.imports, method)(*arguments)
        assert load("flash_x").conv
        assert load("absent_x").pool() == load("user_x").pool() == "pool"
        other.revert()
