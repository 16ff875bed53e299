"""The entry point: every patch of this distribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import patchcore as pc
from mmcv_npu import (
    deform_conv,
    distributed,
    kernels,
    mmcv_version,
    model_sizes,
    multi_scale_deformable_attention,
    nms_rotated,
    optimizer_hooks,
    optimizer_wrapper,
    other_paths,
    pseudo_sampler,
    resnet,
    sigmoid_focal_loss,
    spconv3d,
    stream,
    torchvision,
    voxelization,
)

if TYPE_CHECKING:
    from patchcore import Plan
    from patchcore.plugin import PlannedPatch
    from patchcore_torch import TrainingLoop

PATCHES = (
    torchvision.TORCHVISION,
    mmcv_version.MMCV_VERSION_MMDET,
    mmcv_version.MMCV_VERSION_MMDET3D,
    deform_conv.DEFORM_CONV,
    deform_conv.MODULATED_DEFORM_CONV,
    multi_scale_deformable_attention.MULTI_SCALE_DEFORMABLE_ATTENTION,
    sigmoid_focal_loss.SIGMOID_FOCAL_LOSS,
    nms_rotated.NMS_ROTATED,
    spconv3d.SPCONV3D,
    voxelization.VOXELIZATION,
    stream.STREAM,
    distributed.DDP,
    distributed.DDP_FORWARD,
    optimizer_hooks.OPTIMIZER_HOOKS,
    optimizer_wrapper.OPTIMIZER_WRAPPER,
    resnet.RESNET_ADD_RELU,
    resnet.RESNET_MAXPOOL,
    resnet.RESNET_FP16,
    pseudo_sampler.PSEUDO_SAMPLER_2,
    pseudo_sampler.PSEUDO_SAMPLER_3,
)


@pc.hookimpl
def register_patches(settings: pc.Settings) -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return model_sizes.with_model(PATCHES, settings.get(model_sizes.SETTING))


@pc.hookimpl
def before_apply(patch: pc.Patch, context: pc.Context, planning: bool) -> None:
    """Note whether the kernels that a patch calls are emulated: emulated kernels can also compute on the CPU."""
    if not planning and "mx_driving" in patch.needs:
        kernels.note_emulation(context.patcher)


@pc.hookimpl
def register_settings() -> tuple[pc.Setting, ...]:
    """Let users name the configuration of their model, for warnings of the plan."""
    return (model_sizes.register(),)


@pc.hookimpl
def remarks(entry: PlannedPatch, thorough: bool) -> Iterator[pc.Remark]:
    """Warn of sizes in the model's configuration that a kernel does not take, where a plan is shown or checked."""
    return model_sizes.remarks_on(entry.patch) if thorough else iter(())


@pc.hookimpl
def report_sections() -> Iterator[pc.Section]:
    """Return the section on calls that the kernels did not take."""
    return other_paths.report_section()


@pc.hookimpl
def registry_tables() -> tuple[str, ...]:
    """Return where mmcv 1.x and mmengine keep the entries of a registry (mmengine 0.10 ``registry/registry.py``)."""
    return ("_module_dict",)


@pc.hookimpl(optionalhook=True)  # of the built-in plugin run, which may be left out
def conclusions(plan: Plan) -> Iterator[str]:
    """Return which patch lifts the check of mmcv's version that has ended the program."""
    return mmcv_version.describe_refusal(plan)


@pc.hookimpl(optionalhook=True)
def training_loops() -> tuple[TrainingLoop, ...]:
    """Return the loops of mmcv 1.x and mmengine."""
    from mmcv_npu.training_loops import TRAINING_LOOPS  # for those who profile or brake

    return TRAINING_LOOPS
