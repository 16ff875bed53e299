"""Predefined patches of numpy."""

from __future__ import annotations

from patchcore.compat.mx_driving.predefined import Predefined, legacy_function

__all__ = [
    "NumpyCompat",
    "numpy_type",
]


class NumpyCompat(Predefined):
    """The names that numpy has removed: np.bool, np.int, ..."""

    name = "numpy_compat"
    legacy_name = "numpy_type"
    target_module = "numpy"
    provided_by = ("numpy_compat",)
    distribution = "torch-npu-patches"
    apply_before_collect = True


numpy_type = legacy_function(NumpyCompat)
