"""Predefined patches of torch_scatter."""

from __future__ import annotations

from patchcore.compat.mx_driving.predefined import Predefined, legacy_function

__all__ = [
    "TorchScatter",
    "scatter",
]


class TorchScatter(Predefined):
    """Sums, means and maxima of groups on the kernels."""

    name = "torch_scatter"
    legacy_name = "scatter"
    target_module = "torch_scatter"
    provided_by = ("torch_scatter",)
    distribution = "torch-npu-patches"


scatter = legacy_function(TorchScatter)
