"""Some of the models of docs/models.md: stock configurations and script, on the emulated NPU as on the CPU.

``nox -s models`` trains all of them.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
page, training, zoo = (importlib.import_module(f"tools.models.{name}") for name in ("page", "training", "zoo"))
sys.path.remove(str(ROOT))
for name in [name for name in sys.modules if name.partition(".")[0] == "tools"]:
    del sys.modules[name]  # the examples of migrations have a package of that name, too

#: A detector of two stages (nms, RoI align), one with a focal loss, one with attention, one of point clouds; and what
#: must have been called.
MODELS = {
    "mmdet-1-faster_rcnn_r50_fpn_dconv_c3-c5_1x_coco": {"mmcv.deform_conv", "mmdet.resnet_add_relu"},
    "mmdet-1-retinanet_r18_fpn_1x_coco": {"mmdet.resnet_add_relu", "mmdet.resnet_maxpool"},
    "mmdet-1-deformable_detr_r50_16x2_50e_coco": {"mmcv.multi_scale_deformable_attention"},
    "mmdet-2-faster-rcnn_r50-dconv-c3-c5_fpn_1x_coco": {"mmcv.deform_conv", "mmdet.resnet_add_relu"},
    "mmdet-2-retinanet_r18_fpn_1x_coco": {"mmdet.resnet_add_relu", "mmdet.resnet_maxpool"},
    "mmdet-2-deformable-detr_r50_16xb2-50e_coco": {"mmcv.multi_scale_deformable_attention"},
    "mmdet3d-2-centerpoint_pillar02_second_secfpn_head-dcn_8xb4-cyclic-20e_nus-3d": {"mmcv.deform_conv"},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return training.make_data(tmp_path_factory.mktemp("models") / "data")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.openmmlab(int(name.split("-")[1]))) for name in MODELS]
)
def test_trains_with_the_losses_of_the_cpu(name: str, data: Path, tmp_path: Path) -> None:
    (row,) = (row for row in zoo.ROWS if row.name == name)
    result = training.train(row, tmp_path, data)
    assert page.outcome(result) == "yes", result
    assert page.difference(result) < (1e-3 if row.library == "mmdet3d" else 1e-5)
    assert result["patches"].keys() >= MODELS[name]
