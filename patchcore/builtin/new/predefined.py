"""The patches that ``mx_driving.patcher`` comes with, by every name it has for them, and who has them here."""

from __future__ import annotations

from typing import NamedTuple, Optional

__all__ = ["Predefined", "every_predefined", "find_predefined"]

_MMCV, _MMDET3D, _TORCH = "mmcv-npu-patches", "mmdet3d-npu-patches", "torch-npu-patches"


class Predefined(NamedTuple):
    """A patch that the file need not define.

    Args:
        names: its class (2.0), its function (1.0), the names it is disabled by.
        distribution: what has it here, ``""`` for nothing.
        patches: the names it has there.
        default: whether it is applied there without being asked for.
    """

    names: tuple[str, ...]
    distribution: str = ""
    patches: tuple[str, ...] = ()
    default: bool = True


_ALL = (
    Predefined(
        ("MultiScaleDeformableAttention", "MSDA", "multi_scale_deformable_attention", "msda"),
        _MMCV,
        ("mmcv.multi_scale_deformable_attention",),
    ),
    Predefined(("DeformConv", "deform_conv", "dc"), _MMCV, ("mmcv.deform_conv",)),
    Predefined(("ModulatedDeformConv", "modulated_deform_conv", "mdc"), _MMCV, ("mmcv.modulated_deform_conv",)),
    Predefined(("SparseConv3D", "spconv3d"), _MMCV, ("mmcv.spconv3d",)),
    Predefined(("Voxelization", "voxelization"), _MMCV, ("mmcv.voxelization",), False),
    Predefined(("SigmoidFocalLoss", "sigmoid_focal_loss"), _MMCV, ("mmcv.sigmoid_focal_loss",), False),
    Predefined(("Stream", "stream"), _MMCV, ("mmcv.stream",)),
    Predefined(("DDP", "ddp"), _MMCV, ("mmcv.ddp",)),
    Predefined(("ddp_forward",), _MMCV, ("mmcv.ddp_forward",)),
    Predefined(("OptimizerHooks", "optimizer_hooks"), _MMCV, ("mmcv.optimizer_hooks",), False),
    Predefined(("OptimizerWrapper", "optimizer_wrapper"), _MMCV, ("mmengine.optimizer_wrapper",), False),
    Predefined(("PseudoSampler", "pseudo_sampler"), _MMCV, ("mmdet2.pseudo_sampler", "mmdet3.pseudo_sampler"), False),
    Predefined(("ResNetAddRelu", "resnet_add_relu"), _MMCV, ("mmdet.resnet_add_relu",)),
    Predefined(("ResNetMaxPool", "resnet_maxpool"), _MMCV, ("mmdet.resnet_maxpool",)),
    Predefined(("ResNetFP16", "resnet_fp16"), _MMCV, ("mmdet.resnet_fp16",), False),
    Predefined(("NuScenesDataset", "nuscenes_dataset"), _MMDET3D, ("mmdet3d.nuscenes_dataset",)),
    Predefined(("NuScenesMetric", "nuscenes_metric"), _MMDET3D, ("mmdet3d.nuscenes_metric",)),
    Predefined(("NuScenes",), _MMDET3D, ("mmdet3d.nuscenes_dataset", "mmdet3d.nuscenes_metric")),
    Predefined(("NumpyCompat", "numpy_compat", "numpy_type"), _TORCH, ("numpy.compat",)),
    Predefined(("CollectionsCompat", "Iterable"), _TORCH, ("collections.compat",), False),
    Predefined(("TensorIndex", "tensor_index", "index"), _TORCH, ("torch.tensor_index",)),
    Predefined(("BatchMatmul", "batch_matmul"), _TORCH, ("torch.batch_matmul",)),
    Predefined(("NpuFusedAdamwStep", "npu_fused_adamw_step"), _TORCH, ("torch.npu_fused_adamw_step",), False),
    Predefined(("TorchScatter", "torch_scatter", "scatter"), _TORCH, ("torch_scatter.scatter",), False),
    Predefined(("Qwen3RMSNorm", "qwen3_rmsnorm")),
    Predefined(("Qwen3RoPE", "qwen3_rope")),
    Predefined(("FlashAttention", "flash_attention")),
    Predefined(("FlashAttentionVarlen", "flash_attention_varlen")),
    Predefined(("TransformersNPU", "transformers_npu")),
    Predefined(("QWen3VLNPU", "qwen3vl_npu")),
    Predefined(("AttnProcessor2_0", "attn_processor_2_0")),
    Predefined(("DiffusersNPU", "diffusers_npu")),
)
_BY_NAME = {name: predefined for predefined in _ALL for name in predefined.names}


def every_predefined() -> tuple[Predefined, ...]:
    """Return all of them."""
    return _ALL


def find_predefined(name: str) -> Optional[Predefined]:
    """Return the patch that has this name in ``mx_driving.patcher``, ``None`` for none."""
    return _BY_NAME.get(name)
