"""Modules that are not installed and have nothing inside them."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import patchcore as pc


def dummy(*names: str, **added: Any) -> pc.Patch:
    changes = [pc.DummyImport(name) for name in names]
    return pc.Patch(
        "turbine", [*changes, *(pc.Replace(f"{names[0]}:{k}", v, create="always") for k, v in added.items())]
    )


def test_a_dummy_has_the_names_that_patches_add_and_no_others() -> None:
    with pc.Patcher([dummy("turbine.torch", Linear=int)], strict=True):
        from turbine.torch import Linear  # type: ignore[import-not-found]

        assert Linear is int
        assert not hasattr(sys.modules["turbine.torch"], "Norm")
        with pytest.raises(ImportError, match=r"cannot import name 'Norm' from 'turbine.torch'"):
            from turbine.torch import Norm  # noqa: F401
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'turbine.torch.cpu'"):
            importlib.import_module("turbine.torch.cpu")
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'turbine.jax'"):
            importlib.import_module("turbine.jax")
    assert not [name for name in sys.modules if name.partition(".")[0] == "turbine"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("turbine")


def test_the_package_of_a_dummy_is_no_name_that_holds_it_after_the_revert(make_package: Any) -> None:
    make_package({"turbine/__init__": ""})
    patcher = pc.Patcher([dummy("turbine.torch"), pc.Patch("jax", pc.DummyImport("jet.jax"))])
    patcher.apply()
    for name in ("turbine.torch", "jet.jax"):
        importlib.import_module(name)
    assert patcher.revert().notes == ()


def test_another_patch_may_add_to_a_dummy() -> None:
    add = pc.Patch("norm", pc.Replace("turbine.torch:Norm", float, create="always"))
    with pc.Patcher([add, dummy("turbine.torch")], strict=True):
        assert importlib.import_module("turbine.torch").Norm is float


def test_packages_around_two_dummies_are_made_once() -> None:
    patches = [pc.Patch(name, pc.DummyImport(f"turbine.{name}")) for name in ("torch", "jax")]
    with pc.Patcher(patches, strict=True) as patcher:
        import turbine.jax  # type: ignore[import-not-found]
        import turbine.torch

        assert vars(turbine)["torch"] is sys.modules["turbine.torch"]
        assert vars(turbine)["jax"] is sys.modules["turbine.jax"]
        assert [record.status for record in patcher.report().patches] == ["applied", "applied"]
    assert "turbine" not in sys.modules


def test_modules_inside_a_dummy_package_are_its_attributes() -> None:
    patcher = pc.Patcher([dummy("turbine.torch.ops", "turbine.jax", scan=min)], strict=True)
    with patcher:
        import turbine

        assert "turbine.torch" not in sys.modules
        assert turbine.torch.ops.scan is min
        assert turbine.jax is sys.modules["turbine.jax"]
        assert not hasattr(turbine, "cpu")
        assert not hasattr(turbine.torch, "jax")
        assert not [name for name in dir(turbine.jax) if not name.startswith("__")]
    assert not hasattr(turbine, "torch")
    assert not [name for name in sys.modules if name.partition(".")[0] == "turbine"]


def test_a_dummy_whose_patch_fails_in_its_import_cannot_be_imported() -> None:
    lost = pc.Replace("turbine.torch:Linear", "turbine_patches:Linear", create="always")
    with pc.Patcher([pc.Patch("turbine", [pc.DummyImport("turbine.torch"), lost])]) as patcher:
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'turbine\.torch'"):
            importlib.import_module("turbine.torch")
        assert patcher.report()["turbine"].status == "failed"


def test_an_installed_module_is_left_alone_and_gets_the_missing_part(make_package: Any) -> None:
    make_package({"turbine/__init__": "VERSION = 2"})
    with pc.Patcher([dummy("turbine.torch", Linear=int)]) as patcher:
        import turbine
        import turbine.torch

        assert (turbine.VERSION, turbine.torch.Linear) == (2, int)
        assert "turbine exists" in patcher.report()["turbine"].changes[0].reason
    assert not hasattr(turbine, "torch")


def test_a_name_that_holds_a_dummy_after_the_revert_is_noted(make_package: Any) -> None:
    make_package({"user": "import turbine"})
    patcher = pc.Patcher([dummy("turbine")])
    patcher.apply()
    import user

    assert "user:turbine: still the empty module turbine" in " ".join(patcher.revert().notes)
    assert user.turbine.__name__ == "turbine"


class TestTooLate:
    """A module that was imported before the dummy was there, and asked for it, goes on without it."""

    LIBRARY = """
        try:
            from turbine.torch import Linear
            HAVE = True
        except ImportError:
            HAVE = False
    """

    @pytest.mark.parametrize(
        "change", [pc.DummyImport("turbine.torch"), pc.StubImport("turbine")], ids=["dummy", "stub"]
    )
    def test_the_module_is_named(
        self, make_package: Any, change: pc.DummyImport, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_package({"early": self.LIBRARY, "other": "def later():\n    import turbine.torch"})
        import early
        import other  # noqa: F401

        with pc.Patcher([pc.Patch("turbine", change)], strict=True) as patcher:
            record = patcher.report()["turbine"]
            text = patcher.report().summary()
        assert not early.HAVE
        why = "early was imported before, and asked for turbine"
        assert record.status == "applied"
        assert why in record.changes[0].missed
        assert text == "1 applied; not patched on import: turbine"
        assert [why in message for message in caplog.messages].count(True) == 1

    def test_a_module_that_comes_later_gets_the_dummy_and_is_not(self, make_package: Any) -> None:
        make_package({"early": self.LIBRARY})
        with pc.Patcher([dummy("turbine.torch", Linear=int)], strict=True) as patcher:
            import early

            assert early.HAVE
            assert not patcher.report()["turbine"].missed

    @pytest.mark.parametrize(
        "source",
        [
            "def later():\n    from turbine.torch import Linear",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from turbine.torch import Linear",
            "import turbines",
            "'''\nimport turbine.torch\n'''",
        ],
    )
    def test_imports_that_did_not_run_do_not_count(self, make_package: Any, source: str) -> None:
        make_package({"early": source, "turbines": ""})
        importlib.import_module("early")
        with pc.Patcher([dummy("turbine.torch")], strict=True) as patcher:
            assert not patcher.report()["turbine"].missed
