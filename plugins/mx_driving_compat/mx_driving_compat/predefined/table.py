"""The patches that ``mx_driving.patcher`` comes with: their names there, and the plugins' patches that do it.

The classes and functions of the interface are made from this table, and ``patchcore new --from`` looks names up in it.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

__all__ = ["TABLE", "Entry", "find_entry"]

_MMCV, _MMDET3D, _TORCH = "mmcv-npu-patches", "mmdet3d-npu-patches", "torch-npu-patches"
_DIFFUSERS, _TRANSFORMERS = "diffusers-npu-patches", "transformers-npu-patches"
_ALL_OF_TRANSFORMERS = (
    "transformers.attention",
    "transformers.experts",
    "transformers.flash_windows",
    "transformers.rms_norm",
    "transformers.rotary",
    "transformers.gated_mlp",
    "transformers.sinks",
)


class Entry(NamedTuple):
    """A predefined patch.

    Args:
        class_name: its class in API 2.0.
        name: its name in ``disable`` and in messages.
        library: the top-level package that it changes, ``"python"`` for the standard library.
        summary: the first line of the documentation of its class.
        distribution: the distribution whose plugin has the patch.
        patches: the names of the plugin's patches, for settings.
        default: whether the patch is applied without being asked for, in the interface and by the plugin.
        function: its function in API 1.0, empty if there is none.
        legacy_names: the names by which the interface finds the plugin's patches; ``(name,)`` if empty.
        aliases: further names of the class.
        on_request: True if the interface applies it only where a program names it, though the plugin does by default.
        part_of: the class of API 2.0 that does this and more, if the patch is a function of its own in API 1.0 only.
    """

    class_name: str
    name: str
    library: str
    summary: str = ""
    distribution: str = ""
    patches: tuple[str, ...] = ()
    default: bool = True
    function: str = ""
    legacy_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    part_of: str = ""
    on_request: bool = False

    @property
    def module(self) -> str:
        """The module of ``mx_driving.patcher`` that has its names."""
        return f"{'torch' if self.library == 'torch_npu' else self.library}_patch"

    @property
    def public_names(self) -> tuple[str, ...]:
        """The names that ``mx_driving.patcher`` itself exports."""
        names = (self.function,) if self.part_of else (self.class_name, *self.aliases, self.function)
        return tuple(filter(None, names))


#: Those applied by default in the order of mx_driving.patcher 26.2, in which they are applied; then the others.
TABLE = (
    Entry(
        "MultiScaleDeformableAttention",
        "multi_scale_deformable_attention",
        "mmcv",
        "Multi-scale deformable attention on the kernel.",
        _MMCV,
        ("mmcv.multi_scale_deformable_attention",),
        function="msda",
        aliases=("MSDA",),
    ),
    Entry(
        "DeformConv",
        "deform_conv",
        "mmcv",
        "Deformable convolution on the kernel.",
        _MMCV,
        ("mmcv.deform_conv",),
        function="dc",
    ),
    Entry(
        "ModulatedDeformConv",
        "modulated_deform_conv",
        "mmcv",
        "Modulated deformable convolution on the kernel.",
        _MMCV,
        ("mmcv.modulated_deform_conv",),
        function="mdc",
    ),
    Entry(
        "SparseConv3D",
        "spconv3d",
        "mmcv",
        "Sparse convolutions on the kernels.",
        _MMCV,
        ("mmcv.spconv3d",),
        function="spconv3d",
    ),
    Entry(
        "Stream",
        "stream",
        "mmcv",
        "Copies to the device on a stream that newer torch accepts (mmcv 1.x).",
        _MMCV,
        ("mmcv.stream",),
        function="stream",
    ),
    Entry(
        "DDP",
        "ddp",
        "mmcv",
        "MMDistributedDataParallel for an NPU and for newer torch (mmcv 1.x).",
        _MMCV,
        ("mmcv.ddp",),
        function="ddp",
        legacy_names=("ddp", "ddp_forward"),
    ),
    Entry(
        "ResNetAddRelu",
        "resnet_add_relu",
        "mmdet",
        "Residual addition and ReLU in one kernel.",
        _MMCV,
        ("mmdet.resnet_add_relu",),
        function="resnet_add_relu",
    ),
    Entry(
        "ResNetMaxPool",
        "resnet_maxpool",
        "mmdet",
        "Pooling of the ResNet stem on the kernel.",
        _MMCV,
        ("mmdet.resnet_maxpool",),
        function="resnet_maxpool",
    ),
    Entry(
        "NumpyCompat",
        "numpy_compat",
        "numpy",
        "The names that numpy has removed: np.bool, np.int, ...",
        _TORCH,
        ("numpy.compat",),
        function="numpy_type",
    ),
    Entry(
        "NuScenesDataset",
        "nuscenes_dataset",
        "mmdet3d",
        "Predicted boxes to nuScenes boxes in one pass (mmdet3d 1.0).",
        _MMDET3D,
        ("mmdet3d.nuscenes_dataset",),
        function="nuscenes_dataset",
        aliases=("NuScenes",),
    ),
    Entry(
        "NuScenesMetric",
        "nuscenes_metric",
        "mmdet3d",
        "Predicted boxes to nuScenes boxes in one pass (mmdet3d 1.1 and later).",
        _MMDET3D,
        ("mmdet3d.nuscenes_metric",),
        function="nuscenes_metric",
    ),
    Entry(
        "TensorIndex",
        "tensor_index",
        "torch",
        "Boolean masks through masked_select.",
        _TORCH,
        ("torch.tensor_index",),
        function="index",
    ),
    Entry(
        "BatchMatmul",
        "batch_matmul",
        "torch",
        "Square matrices times column vectors on the kernel.",
        _TORCH,
        ("torch.batch_matmul",),
        function="batch_matmul",
    ),
    Entry(
        "Voxelization",
        "voxelization",
        "mmcv",
        "Voxelization on the kernels.",
        _MMCV,
        ("mmcv.voxelization",),
        default=False,
        function="voxelization",
        legacy_names=("mmcv.voxelization",),
    ),
    Entry(
        "SigmoidFocalLoss",
        "sigmoid_focal_loss",
        "mmcv",
        "Sigmoid focal loss on the kernel.",
        _MMCV,
        ("mmcv.sigmoid_focal_loss",),
        default=False,
        function="sigmoid_focal_loss",
    ),
    Entry(
        "OptimizerHooks",
        "optimizer_hooks",
        "mmcv",
        "Fused gradient clipping in the optimizer hooks (mmcv 1.x).",
        _MMCV,
        ("mmcv.optimizer_hooks",),
        default=False,
        function="optimizer_hooks",
    ),
    Entry(
        "OptimizerWrapper",
        "optimizer_wrapper",
        "mmengine",
        "Fused gradient clipping in OptimWrapper.",
        _MMCV,
        ("mmengine.optimizer_wrapper",),
        default=False,
        function="optimizer_wrapper",
    ),
    Entry(
        "PseudoSampler",
        "pseudo_sampler",
        "mmdet",
        "PseudoSampler without the unique that changes nothing.",
        _MMCV,
        ("mmdet2.pseudo_sampler", "mmdet3.pseudo_sampler"),
        default=False,
        function="pseudo_sampler",
    ),
    Entry(
        "ResNetFP16",
        "resnet_fp16",
        "mmdet",
        "ResNet under float16 autocast.",
        _MMCV,
        ("mmdet.resnet_fp16",),
        default=False,
        function="resnet_fp16",
    ),
    Entry(
        "TorchScatter",
        "torch_scatter",
        "torch_scatter",
        "Sums, means and maxima of groups on the kernels.",
        _TORCH,
        ("torch_scatter.scatter",),
        default=False,
        function="scatter",
    ),
    Entry(
        "CollectionsCompat",
        "Iterable",
        "python",
        "The names that collections has removed: collections.Iterable, ...",
        _TORCH,
        ("collections.compat",),
        default=False,
    ),
    Entry(
        "NpuFusedAdamwStep",
        "npu_fused_adamw_step",
        "torch_npu",
        "The step of NpuFusedAdamW in one kernel.",
        _TORCH,
        ("torch.npu_fused_adamw_step",),
        default=False,
        function="npu_fused_adamw_step",
    ),
    Entry(
        "DDPForward",
        "ddp_forward",
        "mmcv",
        "The part of DDP that is for newer torch, which API 1.0 has as a function of its own.",
        _MMCV,
        ("mmcv.ddp_forward",),
        function="ddp_forward",
        part_of="DDP",
    ),
    Entry(
        "Qwen3RMSNorm",
        "qwen3_rmsnorm",
        "transformers",
        "RMSNorm of Qwen3, and of every model with one that computes the same, on the kernel.",
        _TRANSFORMERS,
        ("transformers.rms_norm",),
        on_request=True,
    ),
    Entry(
        "Qwen3RoPE",
        "qwen3_rope",
        "transformers",
        "Rotary embeddings of Qwen3, and of every model with one that computes the same, on the kernel.",
        _TRANSFORMERS,
        ("transformers.rotary",),
        on_request=True,
    ),
    Entry(
        "Qwen3VLTextRMSNorm",
        "qwen3vltext_rmsnorm",
        "transformers",
        "RMSNorm of Qwen3-VL, and of every model with one that computes the same, on the kernel.",
        _TRANSFORMERS,
        ("transformers.rms_norm",),
        on_request=True,
    ),
    Entry(
        "Qwen3VLRoPE",
        "qwen3_vl_rope_vision",
        "transformers",
        "Rotary embeddings of Qwen3-VL's pictures, and of every model with one that computes the same, on the kernel.",
        _TRANSFORMERS,
        ("transformers.rotary",),
        on_request=True,
    ),
    Entry(
        "BaseImageProcessorFast_preprocess",
        "preprocess",
        "transformers",
        "Fast image processors work on the NPU, where no device is chosen.",
        _TRANSFORMERS,
        ("transformers.fast_images",),
        default=False,
    ),
    Entry(
        "Qwen2VL_preprocess",
        "_preprocess",
        "transformers",
        "The fast image processor of Qwen2-VL works on the NPU, with transformers' own code.",
        _TRANSFORMERS,
        ("transformers.fast_images",),
        default=False,
    ),
    Entry(
        "FlashAttention",
        "flash_attention",
        "transformers",
        "Flash attention on the kernel, which keeps sliding windows.",
        _TRANSFORMERS,
        ("transformers.flash_windows",),
        on_request=True,
    ),
    Entry(
        "FlashAttentionVarlen",
        "flash_attention_varlen",
        "transformers",
        "Flash attention of several sequences on the kernel, which keeps sliding windows.",
        _TRANSFORMERS,
        ("transformers.flash_windows",),
        on_request=True,
    ),
    Entry(
        "Qwen3VL_get_placeholder_mask",
        "get_placeholder_mask",
        "transformers",
        "Qwen3-VL counts the tokens of images without a copy of their embeddings.",
        _TRANSFORMERS,
        ("transformers.qwen3_vl_placeholders",),
        on_request=True,
    ),
    Entry(
        "TransformersNPU",
        "transformers_npu",
        "transformers",
        "All patches of transformers.",
        _TRANSFORMERS,
        _ALL_OF_TRANSFORMERS,
        on_request=True,
    ),
    Entry(
        "QWen3VLNPU",
        "qwen3vl_npu",
        "transformers",
        "All patches of transformers, and the tokens of images of Qwen3-VL.",
        _TRANSFORMERS,
        (*_ALL_OF_TRANSFORMERS, "transformers.qwen3_vl_placeholders"),
        on_request=True,
    ),
    Entry(
        "AttnProcessor2_0",
        "attn_processor_2_0",
        "diffusers",
        "A mask with one row for all queries gets a row for each.",
        _DIFFUSERS,
        ("diffusers.attention.mask_rows",),
        on_request=True,
    ),
    Entry(
        "DiffusersNPU",
        "diffusers_npu",
        "diffusers",
        "All patches of diffusers.",
        _DIFFUSERS,
        (
            "diffusers.geglu",
            "diffusers.rms_norm",
            "diffusers.attention.dispatcher",
            "diffusers.attention.attention_processor",
            "diffusers.attention.sana_transformer",
            "diffusers.attention.transformer_cogview4",
            "diffusers.attention.transformer_hidream_image",
            "diffusers.attention.transformer_lumina2",
            "diffusers.attention.mask_rows",
            "diffusers.softmax.AttentionPooling",
            "diffusers.softmax.IPAdapterTimeImageProjectionBlock",
            "diffusers.softmax.PerceiverAttention",
            "diffusers.softmax.PerceiverCrossAttention",
            "diffusers.softmax.SelfAttention1d",
            "diffusers.softmax.LTX2AudioAttnBlock",
        ),
        on_request=True,
    ),
)

_BY_NAME = {name: entry for entry in TABLE for name in (entry.class_name, entry.name, entry.function) if name}
_BY_NAME.update((alias, entry) for entry in TABLE for alias in entry.aliases)
# A patch.py that adds NuScenes means whichever line of mmdet3d is installed; its plugin has a patch for each.
_BY_NAME["NuScenes"] = _BY_NAME["NuScenesDataset"]._replace(
    patches=("mmdet3d.nuscenes_dataset", "mmdet3d.nuscenes_metric")
)


def find_entry(name: str) -> Optional[Entry]:
    """Return the predefined patch that has this name, of its class or function, ``None`` for no such patch."""
    return _BY_NAME.get(name)
