"""Tests of the OpenMMLab plugins on the real libraries and an emulated NPU.

``pytest tests/openmmlab --emulate-npu=imitation`` runs them on the imitation of torch_npu,
``python -m fake_cann run -m pytest tests/openmmlab`` runs them on the real torch_npu.

They run in two environments, one for each major version of mmcv: mmcv 1.x with mmdet 2.x and mmdet3d 1.0, mmcv 2.x with
mmengine, mmdet 3.x and mmdet3d 1.4. The two cannot be installed together. A test belongs to both unless it is marked
``@pytest.mark.openmmlab(1)`` or ``(2)``; a module that imports what only one of them has is named
``test_<patch>_mmcv1.py`` or ``test_<patch>_mmcv2.py``, and is not collected with the other.
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
import running
from npu_fixtures import as_after_start  # noqa: F401

FOLDER = Path(__file__).resolve().parent
MMCV_MAJORS = (1, 2)


#: Tests that the real torch_npu on the fake CANN does not pass, with the reason; docs/fake-cann.md has them.
_FLOAT64 = "the backward pass of batch norm in float64 gives gradients in float32"
DIFFERENT_ON_REAL_TORCH_NPU = {
    "test_trains_with_the_losses_of_the_cpu[mmdet-2-deformable-detr_r50_16xb2-50e_coco]": (
        "the masks of dropout are drawn in another order where a tensor is not contiguous"
    ),
    "TestAddRelu::test_what_the_kernel_does_not_take_stays_with_torch[dtype1]": _FLOAT64,
    "TestMaxPool::test_another_dtype_stays_with_torch": _FLOAT64,
}


def installed_mmcv_major() -> int | None:
    """Return 1 or 2, the major version of the mmcv that is installed; ``None`` where there is none."""
    for distribution in ("mmcv", "mmcv-full"):
        try:
            return int(metadata.version(distribution).partition(".")[0])
        except metadata.PackageNotFoundError:
            continue
    return None


MMCV_MAJOR = installed_mmcv_major()


def has_npu(config: pytest.Config) -> bool:
    """Tell whether the NPU is emulated here, by npu-emulator or by the fake CANN."""
    return running.ON_CANN or bool(config.getoption("emulate_npu", default=False))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out unless the NPU is emulated, and the modules for the other major version of mmcv."""
    if not has_npu(config):
        return True
    named = re.search(r"_mmcv(\d)\.py$", collection_path.name)
    return True if named and int(named[1]) != MMCV_MAJOR else None


@pytest.hookimpl(trylast=True)  # when the device is there: mmcv looks for it while being imported
def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and import mmcv 1.x with the patch for machines that have no torchvision."""
    config.addinivalue_line("markers", "openmmlab(major): a test for one major version of mmcv, 1 or 2")
    if not has_npu(config):
        return
    if running.ON_CANN:
        from fake_cann.kernels import install_kernels

        assert install_kernels()
    if MMCV_MAJOR not in MMCV_MAJORS:
        raise pytest.UsageError(
            "tests/openmmlab needs mmcv-full 1.x or mmcv 2.x with its operators, found neither: nox -s openmmlab-2"
        )
    if MMCV_MAJOR == 1:
        import patchcore
        from mmcv_npu.torchvision import TORCHVISION

        with patchcore.Patcher([TORCHVISION], strict=True):
            importlib.import_module("mmcv.runner")


def pytest_report_header() -> str:
    """Say at the top of the run which major version of mmcv is tested."""
    return f"openmmlab: mmcv {MMCV_MAJOR}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests for the other major version of mmcv; mark those that the real torch_npu does not pass."""
    other = [item for item in items if FOLDER in item.path.parents and _marked_major(item) not in (None, MMCV_MAJOR)]
    for item in items if running.ON_CANN else ():
        name = item.nodeid.partition("::")[2]
        reason = DIFFERENT_ON_REAL_TORCH_NPU.get(name) or DIFFERENT_ON_REAL_TORCH_NPU.get(name.partition("[")[0])
        if FOLDER in item.path.parents and reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    if other:
        config.hook.pytest_deselected(items=other)
        items[:] = [item for item in items if item not in other]


def _marked_major(item: pytest.Item) -> int | None:
    marker = item.get_closest_marker("openmmlab")
    if marker is None:
        return None
    if marker.args not in ((1,), (2,)) or marker.kwargs:
        raise pytest.UsageError(f"{item.nodeid}: expected openmmlab(1) or openmmlab(2), found {marker}")
    return marker.args[0]


@pytest.fixture(scope="session")
def major() -> int:
    """Return the major version of mmcv, 1 or 2."""
    assert MMCV_MAJOR is not None
    return MMCV_MAJOR


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


@pytest.fixture(autouse=True)
def _registries(registries: None) -> None:
    """Patchers of single patches know the registries of mmcv, as those that load the plugin do."""
