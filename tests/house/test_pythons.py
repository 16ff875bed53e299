"""tools/pythons.py: which Pythons the sessions have on machines with different interpreters."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def pythons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The tool as a module, on a machine without interpreters, uv or pbs-installer, whose nox runs on Python 3.10."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.delitem(sys.modules, "pythons", raising=False)
    tool = importlib.import_module("pythons")
    monkeypatch.setattr(tool, "OWN", "3.10")
    monkeypatch.setattr(tool.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tool


@pytest.fixture
def program(pythons: Any, tmp_path: Path) -> Callable[..., Path]:
    """Install a program in a folder of the machine, by default the one on PATH."""

    def install(name: str, folder: str = "bin") -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    return install


def test_the_python_that_runs_nox_comes_first_if_it_can_have_the_libraries(
    pythons: Any, program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python3.11", "python3.13"):
        program(name)
    assert pythons.of_libraries() == ["3.13", "3.11"]
    monkeypatch.setattr(pythons, "OWN", "3.11")
    assert pythons.of_libraries() == ["3.11", "3.13"]
    monkeypatch.setattr(pythons, "OWN", "3.12")
    assert pythons.of_libraries() == ["3.12", "3.13", "3.11"]


def test_the_newest_interpreter_of_pyenv_is_put_before_its_shims(
    pythons: Any, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("python3.12", "pyenv/shims")
    monkeypatch.setenv("PATH", str(tmp_path / "pyenv" / "shims"))
    program("python3.12", "pyenv/versions/3.12.9/bin")
    newest = program("python3.12", "pyenv/versions/3.12.10/bin")
    (tmp_path / "pyenv" / "versions" / "3.13.0").mkdir()  # half installed
    pythons.reveal_pyenv()
    assert os.environ["PATH"].split(os.pathsep)[0] == str(newest.parent)
    assert pythons.of_libraries() == ["3.12"]


def test_the_suite_runs_on_the_oldest_and_the_newest_python_that_is_here(
    pythons: Any, program: Callable[..., Path]
) -> None:
    assert pythons.of_the_suite() == ["3.10"]
    for name in ("python3.12", "python3.9", "python3.8"):
        program(name)
    assert pythons.of_the_suite() == ["3.9", "3.12"]


def test_a_missing_interpreter_is_fetched_by_uv_or_by_nox(
    pythons: Any, program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (newest,) = pythons.of_libraries()
    assert pythons.options(newest) == {"python": False}  # the session runs, and says what to do
    found = importlib.machinery.ModuleSpec("pbs_installer", None)
    monkeypatch.setattr(pythons.importlib.util, "find_spec", lambda name: found if name == "pbs_installer" else None)
    assert pythons.options(newest) == {"python": newest}
    program("uv")
    assert pythons.options(newest) == {"python": newest, "venv_backend": "uv", "venv_params": ["--seed"]}
