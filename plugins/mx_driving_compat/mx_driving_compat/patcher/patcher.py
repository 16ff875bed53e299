"""The patcher of API 2.0, and the builder of API 1.0."""

from mx_driving_compat.collecting.builder import PatcherBuilder
from mx_driving_compat.collecting.patcher import Patcher, replace_with
from mx_driving_compat.patches.group import Patch

__all__ = ["Patch", "Patcher", "PatcherBuilder", "replace_with"]
