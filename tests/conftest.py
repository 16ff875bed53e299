"""Fixtures for every test: packages made on the spot, and a check that nothing is left in the process."""

from __future__ import annotations

import compileall
import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Union

import hypothesis
import pytest
from programs import Programs

from patchcore.plugins import Plugins

# The same examples in every run of a version; HYPOTHESIS_PROFILE=default looks for new ones.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

ROOT = Path(__file__).resolve().parent.parent

MakePackage = Callable[[Mapping[str, str]], Path]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark of tests that need libraries, and compile patchcore, as installing it does.

    The hundreds of processes that :class:`programs.Programs` starts write no bytecode, and each would compile it anew.
    """
    config.addinivalue_line("markers", "slow: repeats on larger models what other tests protect; run by nox -s slow")
    config.addinivalue_line("markers", "libraries(*names): a test that is skipped where one of these is not installed")
    if not hasattr(config, "workerinput"):  # once, before the workers of pytest-xdist start
        for package in ("patchcore", "patchcore_startup"):
            compileall.compile_dir(ROOT / package, quiet=2)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that take the fixture ``torch``, so that ``-m libraries`` finds them."""
    for item in items:
        if "torch" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.libraries("torch"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose libraries are not installed."""
    for mark in item.iter_markers("libraries"):
        for name in mark.args:
            pytest.importorskip(name)


@pytest.fixture
def import_tool(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that imports a module of the folder tools, anew for each test."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))

    def imported(name: str) -> ModuleType:
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return imported


@pytest.fixture
def registries(monkeypatch) -> None:
    """Let every Patcher of the test know the registries of its libraries, as a plugin for these libraries does."""
    monkeypatch.setattr(Plugins, "registry_tables", lambda self: ["_module_dict"])


@pytest.fixture
def torch() -> ModuleType:
    """The real torch; the test is skipped where it is not installed."""
    return importlib.import_module("torch")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """After every test no patch is in force, the journal is empty, and ``sys.meta_path`` is what it was."""
    # torch_npu removes a finder of its own as soon as torch._dynamo is imported.
    before = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("torch_npu.")]
    yield
    engine = getattr(sys.modules.get("patchcore.engine.engine"), "ENGINE", None)
    left = {}
    if engine is not None:
        left = {name: list(applications) for name, applications in engine._active.items()}
        for application in [a for applications in left.values() for a in applications]:
            for holder in list(application.holders):
                engine.release([application], holder)  # the next test is not to suffer
        assert not left, f"still in force: {', '.join(left)}"
        assert not list(engine.journal), "the journal still has records"
    private = getattr(sys.modules.get("patchcore.builtin.stdlib.private"), "LIBRARY", None)
    assert private is None or not private.users, f"the standard library is still private for {private.users}"
    now = list(sys.meta_path)
    assert [finder for finder in now if finder in before] == before, "a finder is lost or has moved"
    ours = ("patchcore", "mx_driving_compat")
    assert not [f for f in now if type(f).__module__.startswith(ours)], "a finder of patchcore is left"


@pytest.fixture
def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePackage]:
    """Return a function that writes modules and makes them importable.

    After the test they are forgotten, and so is whatever else was imported from the folder: tests write there, too.

    The function takes sources by dotted name, ``{"shop": "", "shop.tools": "def price(): ..."}``: a module that has
    others inside becomes a package. A package left out (``{"ns.part": ""}``) becomes a namespace package. The function
    returns the folder.
    """
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions of one file within a second
    before = set(sys.modules)
    roots: set[str] = set()
    hidden: dict[str, ModuleType] = {}  # real modules of these names, for the time of the test

    def make(sources: Mapping[str, str]) -> Path:
        new = {name.partition(".")[0] for name in sources} - roots
        hidden.update((name, sys.modules.pop(name)) for name in list(sys.modules) if name.partition(".")[0] in new)
        roots.update(new)
        for name, source in sources.items():
            is_package = any(other.startswith(f"{name}.") for other in sources)
            path = folder.joinpath(*name.split("."), *(("__init__",) if is_package else ())).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source), encoding="utf-8")
        importlib.invalidate_caches()
        return folder

    yield make
    roots.update({path.stem for path in folder.iterdir()} - before)
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        del sys.modules[name]
    sys.modules.update(hidden)


@pytest.fixture
def fresh_steps(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Count training steps as in a new process; return the counter."""
    from patchcore_torch.training import steps  # not for tests that look at what imports patchcore

    fresh = steps.Steps()
    monkeypatch.setattr(steps, "STEPS", fresh)
    return fresh


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Return a folder of programs with a Python that has patchcore installed."""
    return Programs(tmp_path)


@pytest.fixture
def reports(tmp_path: Path, make_package: MakePackage, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a directory for reports of the library ``shop``, with settings as nobody made any."""
    from reports import SHOP, Reports  # not for tests that look at what imports patchcore

    make_package(SHOP)
    for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
        monkeypatch.delenv(name)
    return Reports(tmp_path / "reports")


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs a fresh interpreter and returns what it printed; it fails where the interpreter does.

    It takes code as one text, the path of a script, or arguments of ``python`` such as ``"-m", "module"``. What
    :func:`make_package` wrote is importable there.
    """

    def run(*arguments: Union[str, Path], timeout: float = 900) -> str:
        is_code = len(arguments) == 1 and isinstance(arguments[0], str)
        command = ["-c", textwrap.dedent(str(arguments[0]))] if is_code else list(map(str, arguments))
        path = [str(tmp_path / "packages"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
