"""mmcv.torchvision: mmcv 1.x is imported without torchvision, and nobody else takes it to be there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

RunPython = Callable[..., str]

PROGRAM = """
import patchcore as pc
from mmcv_npu.torchvision import TORCHVISION

with pc.Patcher([TORCHVISION], strict=True):
    from mmcv.runner import checkpoint
    import mmcv.cnn
    import mmcv.ops
"""


@pytest.fixture(autouse=True)
def torchvision_is_not_installed() -> None:
    if importlib.util.find_spec("torchvision") is not None:
        pytest.fail("torchvision is installed in this environment: these tests are about one without")


def test_without_the_patch_mmcv_cannot_be_imported(run_python: RunPython) -> None:
    code = "try: import mmcv.ops\nexcept ModuleNotFoundError as error: print(error.name)"
    assert run_python(code).split() == ["torchvision"]


def test_mmcv_is_imported_and_others_still_find_no_torchvision(run_python: RunPython) -> None:
    program = """
    import importlib.util
    print(importlib.util.find_spec("torchvision"))
    try: import torchvision
    except ModuleNotFoundError as error: print(error.name)
"""
    assert run_python(PROGRAM + program).split() == ["None", "torchvision"]


def test_checkpoints_are_found_by_name_and_what_needs_torchvision_says_so(run_python: RunPython) -> None:
    program = """
    print(checkpoint.get_torchvision_models()["resnet50"])
    def use(): checkpoint.torchvision.ops.roi_align(1)
    try: use()
    except pc.StubError as error: print(error)
"""
    address, error = run_python(PROGRAM + program).splitlines()
    assert address.startswith("https://download.pytorch.org/models/resnet50-")
    assert "torchvision.ops.roi_align was called, but is a stub" in error
    assert "mmcv.torchvision" in error
    assert "mmcv/runner/checkpoint.py" in error
