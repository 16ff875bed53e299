"""Predefined patches of mmcv, and its training loops."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from patchcore.compat.mx_driving.mmcv_versions import ensure_mmcv_version, patch_mmcv_version
from patchcore.compat.mx_driving.patcher.version import is_mmcv_v1x
from patchcore.compat.mx_driving.predefined import Predefined, legacy_function
from patchcore.compat.mx_driving.training import TrainingLoops

__all__ = [
    "DDP",
    "DDPForward",
    "DeformConv",
    "ModulatedDeformConv",
    "MultiScaleDeformableAttention",
    "OptimizerHooks",
    "SigmoidFocalLoss",
    "SparseConv3D",
    "Stream",
    "Voxelization",
    "build_mmcv_epoch_runner_patch",
    "build_mmcv_iter_runner_patch",
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
]


class MultiScaleDeformableAttention(Predefined):
    """Multi-scale deformable attention on the kernel."""

    name = "multi_scale_deformable_attention"
    legacy_name = "msda"
    target_module = "mmcv"
    provided_by = ("multi_scale_deformable_attention",)
    distribution = "mmcv-npu-patches"


class DeformConv(Predefined):
    """Deformable convolution on the kernel."""

    name = "deform_conv"
    legacy_name = "dc"
    target_module = "mmcv"
    provided_by = ("deform_conv",)
    distribution = "mmcv-npu-patches"


class ModulatedDeformConv(Predefined):
    """Modulated deformable convolution on the kernel."""

    name = "modulated_deform_conv"
    legacy_name = "mdc"
    target_module = "mmcv"
    provided_by = ("modulated_deform_conv",)
    distribution = "mmcv-npu-patches"


class SparseConv3D(Predefined):
    """Sparse convolutions on the kernels."""

    name = "spconv3d"
    legacy_name = "spconv3d"
    target_module = "mmcv"
    provided_by = ("spconv3d",)
    distribution = "mmcv-npu-patches"


class Voxelization(Predefined):
    """Voxelization on the kernels."""

    name = "voxelization"
    legacy_name = "voxelization"
    target_module = "mmcv"
    provided_by = ("mmcv.voxelization",)
    distribution = "mmcv-npu-patches"


class SigmoidFocalLoss(Predefined):
    """Sigmoid focal loss on the kernel."""

    name = "sigmoid_focal_loss"
    legacy_name = "sigmoid_focal_loss"
    target_module = "mmcv"
    provided_by = ("sigmoid_focal_loss",)
    distribution = "mmcv-npu-patches"


class Stream(Predefined):
    """Copies to the device on a stream that newer torch accepts (mmcv 1.x)."""

    name = "stream"
    legacy_name = "stream"
    target_module = "mmcv"
    provided_by = ("stream",)
    distribution = "mmcv-npu-patches"

    @staticmethod
    def precheck() -> bool:
        """Tell whether mmcv is 1.x."""
        return is_mmcv_v1x()

    @staticmethod
    def scatter_forward(target_gpus: list[int], input_: Any) -> tuple[Any, ...]:
        """Copy a batch to devices, as ``Scatter.forward`` does once this patch is applied.

        Args:
            target_gpus: numbers of the devices, ``[-1]`` for the CPU.
            input_: a tensor, or a list of tensors and lists.
        """
        change = Stream.change_of("mmcv.parallel._functions.Scatter.forward")
        if change.runtime_check is None or change.runtime_check(target_gpus, input_):
            copies = change.replacement(target_gpus, input_)
        else:
            copies = importlib.import_module("mmcv.parallel._functions").scatter(input_, target_gpus, None)
        return tuple(copies) if isinstance(copies, (list, tuple)) else (copies,)


class DDP(Predefined):
    """MMDistributedDataParallel for an NPU and for newer torch (mmcv 1.x)."""

    name = "ddp"
    legacy_name = "ddp"
    target_module = "mmcv"
    provided_by = (
        "ddp",
        "ddp_forward",
    )
    distribution = "mmcv-npu-patches"

    @staticmethod
    def precheck() -> bool:
        """Tell whether mmcv is 1.x."""
        return is_mmcv_v1x()

    @staticmethod
    def ddp_forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        """Run the model of an ``MMDistributedDataParallel``, as its ``_run_ddp_forward`` does with newer torch.

        Args:
            self: the wrapped model.
            inputs, kwargs: arguments of the model.
        """
        change = DDP.change_of("mmcv.parallel.distributed.MMDistributedDataParallel._run_ddp_forward")
        return change.replacement(self, *inputs, **kwargs)


class DDPForward(Predefined):
    """The part of :class:`DDP` that is for newer torch, which API 1.0 has as a function of its own."""

    name = "ddp_forward"
    legacy_name = "ddp_forward"
    target_module = "mmcv"
    provided_by = ("ddp_forward",)
    distribution = "mmcv-npu-patches"


class OptimizerHooks(Predefined):
    """Fused gradient clipping in the optimizer hooks (mmcv 1.x)."""

    name = "optimizer_hooks"
    legacy_name = "optimizer_hooks"
    target_module = "mmcv"
    provided_by = ("optimizer_hooks",)
    distribution = "mmcv-npu-patches"


msda = legacy_function(MultiScaleDeformableAttention)
dc = legacy_function(DeformConv)
mdc = legacy_function(ModulatedDeformConv)
spconv3d = legacy_function(SparseConv3D)
voxelization = legacy_function(Voxelization)
sigmoid_focal_loss = legacy_function(SigmoidFocalLoss)
stream = legacy_function(Stream)
ddp = legacy_function(DDP)
ddp_forward = legacy_function(DDPForward)
optimizer_hooks = legacy_function(OptimizerHooks)


def build_mmcv_epoch_runner_patch(options: Mapping[str, Any]) -> TrainingLoops:
    """Return profiling and brake for the runners of mmcv 1.x; see :meth:`Training.of` for the options."""
    return TrainingLoops("mmcv_epoch_runner", options)


def build_mmcv_iter_runner_patch(options: Mapping[str, Any]) -> TrainingLoops:
    """Return the same: what is asked with equal options is done once, for all loops."""
    return TrainingLoops("mmcv_iter_runner", options)
