"""tools/mmcv_wheel.py and tools/old_setup: setup.py files on every Python, what a build lacks."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def mmcv_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The tool as a module, with a cache of its own."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setenv("PATCHCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "mmcv_wheel", raising=False)
    return importlib.import_module("mmcv_wheel")


@pytest.fixture
def interpreter(mmcv_wheel: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """An interpreter that has headers, torch and ninja, as the tool sees it."""
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").touch()
    (tmp_path / "bin").mkdir()
    ninja = tmp_path / "bin" / "ninja"
    ninja.write_text("#!/bin/sh\n")
    ninja.chmod(0o755)
    found = SimpleNamespace(
        python=sys.executable,
        version="3.12",
        platform="linux_x86_64",
        scripts=str(ninja.parent),
        torch="2.13.0+cu130",
        torch_headers=[],
        python_headers=str(tmp_path / "include"),
    )
    monkeypatch.setattr(mmcv_wheel, "facts_of", lambda python: found)
    return found


class TestOldSetup:
    SETUP = """
def get_version():
    exec(compile("__version__ = '2.1.0'", "mmcv/version.py", "exec"))
    return locals()["__version__"]

def with_namespaces():
    given = {"two": 2}
    exec("found = two", given)
    return given["found"], "found" in locals()

exec("at_the_top = 3")
print(get_version(), with_namespaces(), at_the_top)
"""

    def test_a_version_that_exec_defines_in_a_function_is_found(self, mmcv_wheel: Any) -> None:
        """As the setup.py files of mmcv, mmdet and mmdet3d look for it; Python 3.13 alone does not find it."""
        environment = mmcv_wheel.setup_environment(os.environ)
        done = subprocess.run([sys.executable, "-c", self.SETUP], env=environment, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("2.1.0 (2, False) 3\n", "")


class TestMissingTools:
    """Each is an error of its own, so that the sessions can go on without the operators."""

    @pytest.mark.parametrize(
        ("hide", "named"),
        [("compiler", "apt-get install g++"), ("headers", "python3.12-dev"), ("ninja", "pip install ninja")],
    )
    def test_says_what_to_install(
        self, mmcv_wheel: Any, interpreter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hide: str, named: str
    ) -> None:
        compiler = tmp_path / "c++"
        if hide != "compiler":
            compiler.symlink_to(sys.executable)
        monkeypatch.setenv("CXX", str(compiler))
        if hide == "headers":
            (tmp_path / "include" / "Python.h").unlink()
        elif hide == "ninja":
            (tmp_path / "bin" / "ninja").unlink()
            monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(mmcv_wheel.MissingTool, match=named.replace("+", r"\+")):
            mmcv_wheel.cached_wheel("mmcv==2.1.0", log=lambda line: None)
        with pytest.raises(mmcv_wheel.MissingTool):
            mmcv_wheel.require_tools("mmcv==2.1.0")

    def test_a_wheel_in_the_cache_needs_none(
        self, mmcv_wheel: Any, interpreter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("CXX", "/nonexistent/c++")
        folder = tmp_path / "cache" / "wheels" / "mmcv-2.1.0-cp312-torch2.13.0+cu130-linux_x86_64"
        folder.mkdir(parents=True)
        (folder / "mmcv.whl").touch()
        mmcv_wheel.require_tools("mmcv==2.1.0")
