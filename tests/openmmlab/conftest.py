"""Tests of the OpenMMLab plugins on the real libraries and an emulated NPU, ``pytest tests/openmmlab --emulate-npu``.

They run in two environments, one for each line of the libraries: the two cannot be installed together. Line 1 is mmcv
1.x with mmdet 2.x and mmdet3d 1.0, line 2 is mmcv 2.x with mmengine, mmdet 3.x and mmdet3d 1.4. A test belongs to both
unless it is marked ``@pytest.mark.openmmlab(1)`` or ``(2)``; a module that imports what only one line has is named
``test_<patch>_line1.py`` or ``test_<patch>_line2.py``, and is not collected in the other.
"""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from npu_fixtures import as_after_start  # noqa: F401

FOLDER = Path(__file__).resolve().parent
LINES = (1, 2)


def installed_line() -> int | None:
    """Return 1 or 2, the major version of the mmcv that is installed; ``None`` where there is none."""
    for distribution in ("mmcv", "mmcv-full"):
        try:
            return int(metadata.version(distribution).partition(".")[0])
        except metadata.PackageNotFoundError:
            continue
    return None


LINE = installed_line()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out unless the NPU is emulated, and the modules of the line that is not installed."""
    if not config.getoption("emulate_npu", default=False):
        return True
    named = re.search(r"_line(\d)\.py$", collection_path.name)
    return True if named and int(named[1]) != LINE else None


@pytest.hookimpl(trylast=True)  # when the device is there: mmcv looks for it while being imported
def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and import mmcv 1.x with the patch for machines that have no torchvision."""
    config.addinivalue_line("markers", "openmmlab(line): a test of one line of the libraries, 1 (mmcv 1.x) or 2")
    if not config.getoption("emulate_npu", default=False):
        return
    if LINE not in LINES:
        raise pytest.UsageError(
            "tests/openmmlab needs mmcv-full 1.x or mmcv 2.x with its operators, found neither: nox -s openmmlab-2"
        )
    if LINE == 1:
        import patchcore
        from mmcv_npu.torchvision import TORCHVISION

        with patchcore.Patcher([TORCHVISION], strict=True):
            importlib.import_module("mmcv.runner")


def pytest_report_header() -> str:
    """Say at the top of the run which line is tested."""
    return f"openmmlab: line {LINE}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests in this folder that are of the other line."""
    other = [item for item in items if FOLDER in item.path.parents and _marked_line(item) not in (None, LINE)]
    if other:
        config.hook.pytest_deselected(items=other)
        items[:] = [item for item in items if item not in other]


def _marked_line(item: pytest.Item) -> int | None:
    marker = item.get_closest_marker("openmmlab")
    if marker is None:
        return None
    if marker.args not in ((1,), (2,)) or marker.kwargs:
        raise pytest.UsageError(f"{item.nodeid}: expected openmmlab(1) or openmmlab(2), found {marker}")
    return marker.args[0]


@pytest.fixture(scope="session")
def line() -> int:
    """Return the line of the libraries that is installed, 1 or 2."""
    assert LINE is not None
    return LINE


@pytest.fixture(scope="session")
def device() -> Any:
    """Return ``torch.device("npu:0")``, emulated."""
    import torch

    return torch.device("npu:0")


@pytest.fixture
def calls() -> Iterator[Counter[str]]:
    """Count how often each kernel of ``mx_driving`` runs in this test, by the kernel's name."""
    import npu_emulator

    npu_emulator.mx_driving.calls.clear()
    yield npu_emulator.mx_driving.calls
    npu_emulator.mx_driving.calls.clear()


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Use one thread: on tensors this small a second one costs more than it gives."""
    import torch

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start
