"""mmdet3d under one set of names, with mmcv 1.x and 2.x; importing this imports it."""

from __future__ import annotations

from importlib import metadata

import patchcore as pc
from mmcv_npu.mmcv_version import MMCV_VERSION_MMDET3D
from mmcv_npu.torchvision import TORCHVISION

__all__ = ["MMCV_MAJOR", "CameraBoxes", "DepthBoxes", "LidarBoxes", "conversion"]

MMCV_MAJOR = 1 if metadata.version("mmdet3d").startswith("1.0.") else 2

if MMCV_MAJOR == 1:
    with pc.Patcher([TORCHVISION, MMCV_VERSION_MMDET3D], enable=[MMCV_VERSION_MMDET3D], strict=True):
        from mmdet3d.core import CameraInstance3DBoxes as CameraBoxes
        from mmdet3d.core import DepthInstance3DBoxes as DepthBoxes
        from mmdet3d.core import LiDARInstance3DBoxes as LidarBoxes
        from mmdet3d.datasets import nuscenes_dataset as conversion
else:
    from mmdet3d.evaluation.metrics import nuscenes_metric as conversion
    from mmdet3d.structures import CameraInstance3DBoxes as CameraBoxes
    from mmdet3d.structures import DepthInstance3DBoxes as DepthBoxes
    from mmdet3d.structures import LiDARInstance3DBoxes as LidarBoxes
