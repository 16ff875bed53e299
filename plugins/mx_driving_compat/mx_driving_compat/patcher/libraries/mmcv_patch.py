"""The predefined patches of mmcv, and its training loops."""

from mx_driving_compat.predefined.classes import public_names
from mx_driving_compat.predefined.mmcv_version import ensure_mmcv_version, patch_mmcv_version
from mx_driving_compat.predefined.training import loops_builder

_names = public_names("mmcv_patch")
globals().update(_names)
__all__ = [
    *_names,
    "build_mmcv_epoch_runner_patch",
    "build_mmcv_iter_runner_patch",
    "ensure_mmcv_version",
    "patch_mmcv_version",
]

build_mmcv_epoch_runner_patch = loops_builder("mmcv_epoch_runner")
build_mmcv_iter_runner_patch = loops_builder("mmcv_iter_runner")
