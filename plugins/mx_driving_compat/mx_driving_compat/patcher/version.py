"""Finds the installed version of a package, for prechecks."""

from mx_driving_compat.versions import check_version, get_version, is_mmcv_v1x, is_mmcv_v2x, mmcv_version

__all__ = ["check_version", "get_version", "is_mmcv_v1x", "is_mmcv_v2x", "mmcv_version"]
