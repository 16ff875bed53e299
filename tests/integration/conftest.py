"""Fixtures for tests with real libraries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from shell import ADOPTION, Shell

HERE = Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here as one that needs libraries."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.libraries)


@pytest.fixture
def mx_driving() -> Iterator[ModuleType]:
    """The stand-in kernels under their own name (nothing is installed), call counter at zero, on one thread.

    On tensors as small as those of the tests, a second thread costs more than it gives.
    """
    torch = pytest.importorskip("torch")
    stand_in: ModuleType = pytest.importorskip("npu_emulator.mx_driving")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    stand_in.calls.clear()
    yield stand_in
    torch.set_num_threads(threads)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """In a copy of the examples, so that reports do not end up in the checkout."""
    folder = tmp_path / "adoption"
    shutil.copytree(ADOPTION, folder, ignore=shutil.ignore_patterns("reports", "work_dirs", "__pycache__"))
    return Shell(folder, tmp_path)
