"""mmcv installed without its compiled operators: the patches of operators are skipped, and mmcv is not imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mmcv_npu import kernels
from mmcv_npu.plugin import PATCHES


@pytest.fixture
def mmcv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name that cannot be imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mmcv"]:
        monkeypatch.delitem(sys.modules, name)
    folder = tmp_path / "mmcv"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_operators_are_looked_for(mmcv: Path) -> None:
    assert kernels.operators_are_built().reason == "mmcv is installed without its operators: there is no mmcv._ext"
    (mmcv / "_ext.cpython-311-x86_64-linux-gnu.so").touch()
    assert kernels.operators_are_built() is True


def test_every_patch_of_an_operator_looks_for_them() -> None:
    of_operators = [
        patch
        for patch in PATCHES
        if any(change.target.module.startswith(("mmcv.ops", "mmcv._ext")) for change in patch.changes)
    ]
    assert of_operators
    assert [patch.name for patch in of_operators if patch.when is not kernels.operators_are_built] == []
