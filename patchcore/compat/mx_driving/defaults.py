"""The predefined patches, those that are applied by default, and what goes with every patcher."""

from __future__ import annotations

import sys

from patchcore.compat.mx_driving.patcher import mmcv_patch, mmdet3d_patch, mmdet_patch, numpy_patch, torch_patch
from patchcore.compat.mx_driving.patcher.mmengine_patch import OptimizerWrapper
from patchcore.compat.mx_driving.patcher.python_patch import CollectionsCompat
from patchcore.compat.mx_driving.patcher.torch_scatter_patch import TorchScatter
from patchcore.compat.mx_driving.predefined import Predefined

__all__ = ["ALL", "DEFAULT", "InternalFormat", "TransferToNpu", "by_legacy_name", "torch_npu_transferred"]

#: In the order of mx_driving.patcher 26.2, in which they are applied.
DEFAULT: list[type[Predefined]] = [
    mmcv_patch.MultiScaleDeformableAttention,
    mmcv_patch.DeformConv,
    mmcv_patch.ModulatedDeformConv,
    mmcv_patch.SparseConv3D,
    mmcv_patch.Stream,
    mmcv_patch.DDP,
    mmdet_patch.ResNetAddRelu,
    mmdet_patch.ResNetMaxPool,
    numpy_patch.NumpyCompat,
    mmdet3d_patch.NuScenesDataset,
    mmdet3d_patch.NuScenesMetric,
    torch_patch.TensorIndex,
    torch_patch.BatchMatmul,
]

ALL: list[type[Predefined]] = [
    *DEFAULT,
    mmcv_patch.Voxelization,
    mmcv_patch.SigmoidFocalLoss,
    mmcv_patch.OptimizerHooks,
    OptimizerWrapper,
    mmdet_patch.PseudoSampler,
    mmdet_patch.ResNetFP16,
    TorchScatter,
    CollectionsCompat,
    torch_patch.NpuFusedAdamwStep,
]


class TransferToNpu(Predefined):
    """What importing ``mx_driving`` does besides: what asks for CUDA gets the NPU, and torch.compile understands it."""

    name = "transfer_to_npu"
    legacy_name = "transfer_to_npu"
    target_module = "torch"
    provided_by = ("compile", "transfer_to_npu")
    distribution = "torch-npu-patches"


def torch_npu_transferred() -> bool:
    """Tell whether torch_npu's own ``transfer_to_npu`` was imported, on top of which ours would be one too many."""
    return "torch_npu.contrib.transfer_to_npu" in sys.modules


class InternalFormat(Predefined):
    """Whether torch_npu may keep tensors in private formats."""

    name = "allow_internal_format"
    legacy_name = "allow_internal_format"
    target_module = "torch_npu"
    provided_by = ("internal_format",)
    distribution = "torch-npu-patches"


def by_legacy_name() -> dict[str, type[Predefined]]:
    """Return the predefined patches by their names of API 1.0."""
    return {patch.legacy_name: patch for patch in ALL}
