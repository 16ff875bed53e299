"""``npu_emulator.install()``: what it makes importable, what it leaves alone, and that it is undone exactly.

No test here needs torch: where a test claims that nothing heavy is imported, a torch that raises on import is on the
path of a fresh interpreter.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import npu_emulator
from npu_emulator.settings import Settings, make_settings

PACKAGE_ROOT = Path(npu_emulator.__file__).parent.parent


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Every test here ends with the import system as it found it."""
    meta_path = list(sys.meta_path)
    modules = _emulated_modules()
    yield
    assert sys.meta_path == meta_path
    assert _emulated_modules() == modules


def _emulated_modules() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.split(".")[0] == "mx_driving"}


def _run_in_fresh_interpreter(code: str, extra_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(extra_path), str(PACKAGE_ROOT)])}
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, env=environment, cwd=extra_path, timeout=900
    )


def test_importing_the_package_activates_nothing() -> None:
    assert importlib.util.find_spec("mx_driving") is None
    with pytest.raises(ModuleNotFoundError, match="mx_driving"):
        importlib.import_module("mx_driving")


def test_install_and_every_find_spec_answer_without_importing_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')")
    _run_in_fresh_interpreter(
        """
        import importlib.util, sys
        import npu_emulator

        npu_emulator.install(device=False)
        assert "mx_driving" not in sys.modules
        assert importlib.util.find_spec("mx_driving") is not None
        assert "mx_driving" not in sys.modules
        for kernel in ("deform_conv2d", "modulated_deform_conv2d", "multi_scale_deformable_attn", "npu_add_relu"):
            assert importlib.util.find_spec(f"mx_driving.ops.{kernel}") is not None, kernel
        import mx_driving
        assert mx_driving.__file__ == npu_emulator.mx_driving.__file__
        assert "deform_conv2d" in dir(mx_driving)
        assert not mx_driving.calls
        try:
            mx_driving.deform_conv2d
        except RuntimeError as error:
            assert str(error) == "torch was imported"
        else:
            raise AssertionError("the first use of a kernel imports torch")
        """,
        tmp_path,
    )


def test_names_resolve_to_the_stand_ins() -> None:
    with npu_emulator.install(device=False):
        assert importlib.import_module("mx_driving") is npu_emulator.mx_driving
        assert importlib.import_module("mx_driving.ops") is importlib.import_module("npu_emulator.mx_driving.ops")
        assert importlib.util.find_spec("mx_driving") is not None  # also once it is imported


def test_what_has_no_stand_in_is_not_found() -> None:
    with npu_emulator.install(device=False):
        assert importlib.util.find_spec("mx_driving.patcher") is None
        assert importlib.util.find_spec("mx_driving_extras") is None
        with pytest.raises(ModuleNotFoundError, match=r"mx_driving\.patcher"):
            importlib.import_module("mx_driving.patcher")
        with pytest.raises(AttributeError, match=r"mx_driving\.no_such_kernel has no stand-in.*deform_conv2d"):
            importlib.import_module("mx_driving").no_such_kernel


def test_leaving_the_block_restores_also_after_an_error() -> None:
    installation = npu_emulator.install(device=False)
    importlib.import_module("mx_driving.ops")
    with pytest.raises(KeyError, match="from the block"), installation:
        raise KeyError("from the block")
    assert "mx_driving" not in sys.modules
    assert importlib.util.find_spec("mx_driving") is None


@pytest.mark.parametrize("inner_first", [True, False], ids=["nested", "overlapping"])
def test_stand_ins_stay_until_the_last_installation_is_undone(inner_first: bool) -> None:
    before = list(sys.meta_path)
    outer = npu_emulator.install(device=False)
    inner = npu_emulator.install(device=False)
    assert len(sys.meta_path) == len(before) + 1
    first, last = (inner, outer) if inner_first else (outer, inner)
    first.uninstall()
    first.uninstall()  # gives up one installation, however often it is called
    assert importlib.util.find_spec("mx_driving") is not None
    last.uninstall()
    assert importlib.util.find_spec("mx_driving") is None


def test_mmcv_has_operators_without_the_device_on_request() -> None:
    def hooks() -> int:
        return sum(type(finder).__name__ == "OperatorsHook" for finder in sys.meta_path)

    with npu_emulator.install(device=False):
        assert hooks() == 0
        with npu_emulator.install(device=False, mmcv=True), npu_emulator.install(device=False, mmcv=True):
            assert hooks() == 1
        assert hooks() == 0


def test_refuses_to_hide_an_importable_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "mx_driving" / "__init__.py"
    library.parent.mkdir()
    library.write_text("raise RuntimeError('it must not be imported to be found')")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    with pytest.raises(npu_emulator.RealLibraryError) as caught:
        npu_emulator.install(device=False)
    assert str(library) in str(caught.value)
    assert "pip uninstall mx-driving" in str(caught.value)
    assert sys.meta_path == before


@pytest.mark.parametrize("has_spec", [True, False])
def test_refuses_to_hide_an_imported_library(has_spec: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("mx_driving")
    if has_spec:
        library.__spec__ = importlib.util.spec_from_loader("mx_driving", loader=None, origin="somewhere else")
    monkeypatch.setitem(sys.modules, "mx_driving", library)
    with pytest.raises(npu_emulator.RealLibraryError, match="somewhere else" if has_spec else "sys.modules"):
        npu_emulator.install(device=False)
    assert sys.modules["mx_driving"] is library
    monkeypatch.delitem(sys.modules, "mx_driving")
    with npu_emulator.install(device=False):  # the refusal left no trace
        assert importlib.import_module("mx_driving") is npu_emulator.mx_driving


def test_an_import_blocked_on_purpose_is_blocked_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mx_driving", None)
    with npu_emulator.install(device=False):
        assert importlib.import_module("mx_driving") is npu_emulator.mx_driving
    assert sys.modules["mx_driving"] is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mx_driving")
    monkeypatch.undo()


def test_uninstall_leaves_what_others_added() -> None:
    class OtherFinder:
        @staticmethod
        def find_spec(fullname: str, path: object = None, target: object = None) -> None:
            return None

    others = {"mx_driving.patcher": ModuleType("mx_driving.patcher"), "mx_driving.ops": ModuleType("mx_driving.ops")}
    before = list(sys.meta_path)
    with npu_emulator.install(device=False):
        sys.meta_path.insert(0, OtherFinder)
        importlib.import_module("mx_driving.ops")
        sys.modules.update(others)
    assert sys.meta_path == [OtherFinder, *before]
    assert _emulated_modules() == others
    sys.meta_path.remove(OtherFinder)
    for name in others:
        del sys.modules[name]


def test_limits_can_be_lifted_and_come_back() -> None:
    limits = npu_emulator.limits
    with limits.lifted():
        with limits.lifted():
            limits.require(False, "some_kernel", "a multiple of 64", 63)
        limits.require(False, "some_kernel", "a multiple of 64", 63)
    with pytest.raises(
        limits.LimitError, match=r"mx_driving\.some_kernel: the device takes a multiple of 64, found 63"
    ):
        limits.require(False, "some_kernel", "a multiple of 64", 63)
    limits.require(True, "some_kernel", "a multiple of 64", 64)


# --- the device, as far as it goes without torch ---------------------------------------------------------------------


def test_torch_is_told_of_the_device_by_package_metadata(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')")
    _run_in_fresh_interpreter(
        """
        import importlib.metadata, importlib.util, sys
        import npu_emulator

        def entry_points():
            groups = importlib.metadata.entry_points()
            if hasattr(groups, "select"):  # since Python 3.10
                return [entry.value for entry in groups.select(group="torch.backends")]
            return [entry.value for entry in groups.get("torch.backends", [])]

        before = entry_points()
        with npu_emulator.install():
            assert npu_emulator.is_installed()
            assert importlib.metadata.version("torch_npu").endswith("+emulated")
            assert importlib.metadata.version("torch-npu").endswith("+emulated")
            assert entry_points() == [*before, "torch_npu:_autoload"]
            assert importlib.util.find_spec("torch_npu") is not None
        assert not npu_emulator.is_installed()
        assert importlib.util.find_spec("torch_npu") is None
        assert entry_points() == before
        assert "torch_npu" not in sys.modules
        """,
        tmp_path,
    )


def test_a_real_torch_npu_is_never_hidden(tmp_path: Path) -> None:
    (tmp_path / "torch_npu.py").touch()
    _run_in_fresh_interpreter(
        """
        import sys
        import npu_emulator

        before = list(sys.meta_path)
        try:
            npu_emulator.install()
        except npu_emulator.RealLibraryError as error:
            assert "expected no importable 'torch_npu', found a real one at" in str(error)
            assert "pip uninstall torch-npu" in str(error)
        else:
            raise AssertionError("it was hidden")
        assert sys.meta_path == before
        with npu_emulator.install(device=False):
            import torch_npu
            assert torch_npu.__file__.endswith("torch_npu.py")
        """,
        tmp_path,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"core": "fast"}, "core is one of auto, native, python, found 'fast'"),
        ({"devices": 0}, "devices is a number from 1 to 64, found 0"),
        ({"devices": 65}, "devices is a number from 1 to 64, found 65"),
    ],
    ids=["core", "no devices", "too many"],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(npu_emulator.EmulationError, match=message):
        npu_emulator.install(**arguments)
    assert not npu_emulator.is_installed()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Settings("auto", 8)),
        ({"NPU_EMULATOR_CORE": "python", "NPU_EMULATOR_DEVICES": "2"}, Settings("python", 2)),
        ({"NPU_EMULATOR_DEVICES": ""}, Settings("auto", 8)),
    ],
    ids=["default", "chosen", "empty"],
)
def test_the_environment_chooses_where_nobody_else_does(environ: dict[str, str], expected: Settings) -> None:
    assert make_settings(environ=environ) == expected
    assert make_settings("native", 3, environ) == Settings("native", 3)


def test_a_setting_of_the_environment_that_does_not_exist_is_named() -> None:
    with pytest.raises(npu_emulator.EmulationError, match="NPU_EMULATOR_DEVICES is a number from 1 to 64, found 'two'"):
        make_settings(environ={"NPU_EMULATOR_DEVICES": "two"})
    for text in ("²", "٣", "1_0", " 1", "9" * 5000):
        with pytest.raises(npu_emulator.EmulationError, match="NPU_EMULATOR_DEVICES is a number from 1 to 64"):
            make_settings(environ={"NPU_EMULATOR_DEVICES": text})


def test_a_process_has_one_emulated_machine() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "torch", None)  # where it is imported, it gets the device at once
        with npu_emulator.install(devices=2):
            with npu_emulator.install(), npu_emulator.install(devices=2):
                pass
            with pytest.raises(npu_emulator.EmulationError, match="They cannot change; use another process"):
                npu_emulator.install(devices=4)


def test_where_a_submodule_is_can_be_asked_without_importing_the_packages_around_it(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')")
    _run_in_fresh_interpreter(
        """
        import sys
        import npu_emulator

        npu_emulator.install()
        (finder,) = [each for each in sys.meta_path if each.find_spec("torch_npu.optim", None) is not None]
        assert finder.find_spec("torch_npu.nosuch") is None
        assert finder.find_spec("torch_npu.optim.nosuch.deeper") is None
        assert "npu_emulator.torch_npu" not in sys.modules
        """,
        tmp_path,
    )


@pytest.mark.libraries("torch")
@pytest.mark.parametrize("first", ["mx_driving.ops.npu_add_relu", "npu_emulator.mx_driving.ops.npu_add_relu"])
def test_watchers_of_imports_see_the_name_of_the_library(first: str) -> None:
    name = "mx_driving.ops.npu_add_relu"
    own = f"npu_emulator.{name}"
    forgotten = sys.modules.pop(own, None)
    asked: list[str] = []

    class Watcher:
        @staticmethod
        def find_spec(fullname: str, path: object = None, target: object = None) -> None:
            asked.append(fullname)

    try:
        with npu_emulator.install(device=False):
            sys.meta_path.insert(0, Watcher)
            try:
                importlib.import_module(first)
            finally:
                sys.meta_path.remove(Watcher)
            assert {name, own} <= set(asked)
            assert sys.modules[name] is sys.modules[own]
            assert sys.modules[name].__name__ == own
    finally:
        if forgotten is not None:
            sys.modules[own] = sys.modules["npu_emulator.mx_driving.ops"].npu_add_relu = forgotten


def test_a_module_has_its_public_name_while_it_is_executed_and_loses_it_where_that_fails(tmp_path: Path) -> None:
    package = tmp_path / "standing"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text(
        "import sys, failing\nassert sys.modules['library.part'] is sys.modules['standing.part']\nfailing.fail()"
    )
    _run_in_fresh_interpreter(
        """
        import importlib, sys, types
        from npu_emulator.stand_ins import StandIn, StandInFinder

        StandInFinder(StandIn("library", {"library": "standing"}, remedy="pip uninstall library")).connect()
        failing = sys.modules["failing"] = types.ModuleType("failing")
        failing.fail = lambda: 1 / 0
        for name in ("library.part", "standing.part"):
            try:
                importlib.import_module(name)
            except ZeroDivisionError:
                pass
            else:
                raise AssertionError("it was to fail")
            assert not {"library.part", "standing.part"} & set(sys.modules)
        failing.fail = lambda: None
        import standing.part
        import library.part
        assert library.part is standing.part and library is standing
        """,
        tmp_path,
    )
