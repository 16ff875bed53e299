"""Reports name what the program uses of torch.cuda that no NPU has, and nothing else; without torch."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

from torch_npu_patches.transfer_to_npu import uses

SOURCE = """
import torch
import torch.cuda as tc
from torch import cuda as c2
from torch.cuda import temperature, is_available

def never_called():
    torch.cuda.memory_usage()        # 8
    tc.power_draw(), c2.clock_rate() # 9
    torch.cuda.empty_cache()
    other.memory_usage()
    "torch.cuda.cudart"
"""
NAMES = ["memory_usage", "power_draw", "clock_rate", "temperature", "cudart"]


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "without_counterpart", lambda: NAMES)
    monkeypatch.setattr(uses, "_found", {})


def load(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> str:
    path = folder / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    module = type(sys)(name)
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, name, module)
    return str(path)


def test_lines_of_the_program_with_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = load(tmp_path, "a_program", SOURCE, monkeypatch)
    assert [tuple(use) for use in uses.uses_without_counterpart()] == [
        ("temperature", file, 5),
        ("memory_usage", file, 8),
        ("clock_rate", file, 9),
        ("power_draw", file, 9),
    ]
    assert str(uses.uses_without_counterpart()[1]) == f"{file}:8: torch.cuda.memory_usage"


def test_the_script_itself_when_the_program_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = load(tmp_path, "__main__", SOURCE, monkeypatch)
    main = sys.modules["__main__"]
    del main.__file__  # as CPython does before functions of atexit
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
    assert {use.file for use in uses.uses_without_counterpart()} == {file}


@pytest.mark.parametrize("folder", ["lib/python3/site-packages/big", "dist-packages"])
def test_installed_packages_are_no_part_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    load(tmp_path / folder, "a_library", SOURCE, monkeypatch)
    assert uses.uses_without_counterpart() == []


def test_what_cannot_be_read_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, "broken", "cuda.memory_usage(\n", monkeypatch)
    Path(load(tmp_path, "gone", "", monkeypatch)).unlink()
    assert uses.uses_without_counterpart() == []


def test_a_lazily_loaded_module_stays_unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazy_one.py").write_text("raise AssertionError('was loaded')\n")
    spec = importlib.util.spec_from_file_location("lazy_one", tmp_path / "lazy_one.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "lazy_one", module)
    spec.loader.exec_module(module)
    assert uses.uses_without_counterpart() == []
