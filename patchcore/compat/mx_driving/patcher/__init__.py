"""The interface of ``mx_driving.patcher``: API 2.0 and, under the names that it keeps for that, API 1.0.

from mx_driving.patcher import default_patcher, AtomicPatch

default_patcher.skip_import("flash_attn")
default_patcher.add(AtomicPatch("my_model.ops.attention", my_attention))
default_patcher.apply()
"""

from __future__ import annotations

import importlib
from typing import Any

# Not when it is asked for, as the other names are: the import system binds the module of the same name here.
from patchcore.compat.mx_driving.patcher.patcher_logger import patcher_logger as patcher_logger

#: Where each public name is.
_NAMES = {
    "patcher": ("Patcher", "replace_with"),
    "patch": ("AtomicPatch", "BasePatch", "LegacyPatch", "Patch", "RegistryPatch", "with_imports"),
    "patcher_logger": ("PatchError", "configure_patcher_logging", "patcher_logger", "set_patcher_log_level"),
    "reporting": ("PatchResult", "PatchStatus"),
    "version": ("check_version", "get_version", "is_mmcv_v1x", "is_mmcv_v2x", "mmcv_version"),
    "legacy": ("LegacyPatchWrapper", "LegacyPatcherBuilder", "PatcherBuilder", "default_patcher_builder"),
    "mmcv_patch": (
        "DDP",
        "DeformConv",
        "ModulatedDeformConv",
        "MultiScaleDeformableAttention",
        "OptimizerHooks",
        "SigmoidFocalLoss",
        "SparseConv3D",
        "Stream",
        "Voxelization",
        "dc",
        "ddp",
        "ddp_forward",
        "ensure_mmcv_version",
        "mdc",
        "msda",
        "optimizer_hooks",
        "patch_mmcv_version",
        "sigmoid_focal_loss",
        "spconv3d",
        "stream",
        "voxelization",
    ),
    "mmengine_patch": ("OptimizerWrapper", "optimizer_wrapper"),
    "mmdet_patch": (
        "PseudoSampler",
        "ResNetAddRelu",
        "ResNetFP16",
        "ResNetMaxPool",
        "pseudo_sampler",
        "resnet_add_relu",
        "resnet_fp16",
        "resnet_maxpool",
    ),
    "mmdet3d_patch": ("NuScenes", "NuScenesDataset", "NuScenesMetric", "nuscenes_dataset", "nuscenes_metric"),
    "numpy_patch": ("NumpyCompat", "numpy_type"),
    "python_patch": ("CollectionsCompat",),
    "torch_patch": (
        "BatchMatmul",
        "NpuFusedAdamwStep",
        "TensorIndex",
        "batch_matmul",
        "index",
        "npu_fused_adamw_step",
    ),
    "torch_scatter_patch": ("TorchScatter", "scatter"),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}

#: What the API exports besides, for libraries that no plugin of patchcore patches yet.
_MISSING = (
    *("AttnProcessor2_0", "DiffusersNPU", "FlashAttention", "FlashAttentionVarlen"),
    *("QWen3VLNPU", "Qwen3RMSNorm", "Qwen3RoPE", "TransformersNPU"),
)

__all__ = [*_WHERE, "MSDA", "default_patcher"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    elif name == "MSDA":
        value = __getattr__("MultiScaleDeformableAttention")
    elif name == "default_patcher":
        from patchcore.compat.mx_driving.defaults import DEFAULT

        value = __getattr__("Patcher")().add(*DEFAULT)
    elif name in ("_ALL_PATCH_CLASSES", "_DEFAULT_PATCH_CLASSES", "_LEGACY_NAME_TO_CLASS"):
        from patchcore.compat.mx_driving import defaults

        tables = {"_ALL_PATCH_CLASSES": defaults.ALL, "_DEFAULT_PATCH_CLASSES": defaults.DEFAULT}
        value = tables.get(name) or defaults.by_legacy_name()
    else:
        why = ": no plugin of patchcore patches transformers or diffusers yet" if name in _MISSING else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{why}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
