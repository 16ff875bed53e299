"""Predefined patches of mmdet3d."""

from __future__ import annotations

from patchcore.compat.mx_driving.predefined import Predefined, legacy_function

__all__ = [
    "NuScenes",
    "NuScenesDataset",
    "NuScenesMetric",
    "nuscenes_dataset",
    "nuscenes_metric",
]


class NuScenesDataset(Predefined):
    """Predicted boxes to nuScenes boxes in one pass (mmdet3d 1.0)."""

    name = "nuscenes_dataset"
    legacy_name = "nuscenes_dataset"
    target_module = "mmdet3d"
    provided_by = ("nuscenes_dataset",)
    distribution = "mmdet3d-npu-patches"


class NuScenesMetric(Predefined):
    """Predicted boxes to nuScenes boxes in one pass (mmdet3d 1.1 and later)."""

    name = "nuscenes_metric"
    legacy_name = "nuscenes_metric"
    target_module = "mmdet3d"
    provided_by = ("nuscenes_metric",)
    distribution = "mmdet3d-npu-patches"


#: Another name that the API has for it.
NuScenes = NuScenesDataset


nuscenes_dataset = legacy_function(NuScenesDataset)
nuscenes_metric = legacy_function(NuScenesMetric)
