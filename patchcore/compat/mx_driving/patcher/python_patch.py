"""Predefined patches of the standard library."""

from __future__ import annotations

from patchcore.compat.mx_driving.predefined import Predefined

__all__ = [
    "CollectionsCompat",
]


class CollectionsCompat(Predefined):
    """The names that collections has removed: collections.Iterable, ..."""

    name = "Iterable"
    legacy_name = "Iterable"
    target_module = "python"
    provided_by = ("Iterable",)
    distribution = "torch-npu-patches"
    apply_before_collect = True
