"""The names of API 1.0."""

from mx_driving_compat.collecting.builder import LegacyPatcherBuilder, PatcherBuilder, default_patcher_builder
from mx_driving_compat.patches.by_hand import LegacyPatchWrapper

__all__ = ["LegacyPatchWrapper", "LegacyPatcherBuilder", "PatcherBuilder", "default_patcher_builder"]
