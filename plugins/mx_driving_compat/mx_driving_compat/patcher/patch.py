"""The kinds of patches, and the names that their functions use."""

from mx_driving_compat.imports.with_imports import with_imports
from mx_driving_compat.messages.logger import patcher_logger
from mx_driving_compat.messages.results import PatchResult, PatchStatus
from mx_driving_compat.patches.atomic import AtomicPatch
from mx_driving_compat.patches.base import BasePatch
from mx_driving_compat.patches.by_hand import LegacyPatch
from mx_driving_compat.patches.group import Patch
from mx_driving_compat.patches.registry import RegistryPatch
from mx_driving_compat.versions import check_version, get_version, is_mmcv_v1x, is_mmcv_v2x, mmcv_version

__all__ = [
    "AtomicPatch",
    "BasePatch",
    "LegacyPatch",
    "Patch",
    "PatchResult",
    "PatchStatus",
    "RegistryPatch",
    "check_version",
    "get_version",
    "is_mmcv_v1x",
    "is_mmcv_v2x",
    "mmcv_version",
    "patcher_logger",
    "with_imports",
]
