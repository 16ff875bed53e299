"""Predefined patches of torch."""

from __future__ import annotations

from patchcore.compat.mx_driving.predefined import Predefined, legacy_function

__all__ = [
    "BatchMatmul",
    "NpuFusedAdamwStep",
    "TensorIndex",
    "batch_matmul",
    "index",
    "npu_fused_adamw_step",
]


class TensorIndex(Predefined):
    """Boolean masks through masked_select."""

    name = "tensor_index"
    legacy_name = "index"
    target_module = "torch"
    provided_by = ("tensor_index",)
    distribution = "torch-npu-patches"


class BatchMatmul(Predefined):
    """Square matrices times column vectors on the kernel."""

    name = "batch_matmul"
    legacy_name = "batch_matmul"
    target_module = "torch"
    provided_by = ("batch_matmul",)
    distribution = "torch-npu-patches"


class NpuFusedAdamwStep(Predefined):
    """The step of NpuFusedAdamW in one kernel."""

    name = "npu_fused_adamw_step"
    legacy_name = "npu_fused_adamw_step"
    target_module = "torch_npu"
    provided_by = ("npu_fused_adamw_step",)
    distribution = "torch-npu-patches"


index = legacy_function(TensorIndex)
batch_matmul = legacy_function(BatchMatmul)
npu_fused_adamw_step = legacy_function(NpuFusedAdamwStep)
