"""What the occupancy model needs on an NPU."""

import importlib
import os
import sys
from types import ModuleType
from typing import Dict

import mx_driving
import torch
import torch_npu
from mx_driving.patcher import Patch, PatcherBuilder, ddp, index, numpy_type, stream
from mx_driving.patcher.mmcv_patch import dc, mdc, msda, optimizer_hooks
from mx_driving.patcher.mmdet import resnet_add_relu, resnet_maxpool
from mx_driving.patcher.tensor import batch_matmul


def flash_attention(attention: ModuleType, options: Dict):
    def forward(self, query, key, value):
        scale = query.shape[-1] ** -0.5
        heads = query.shape[-2]
        return torch_npu.npu_fusion_attention(query, key, value, heads, options["layout"], scale=scale)[0]

    if hasattr(attention, "FlashAttention"):
        attention.FlashAttention.forward = forward
    else:
        raise AttributeError("FlashAttention attr not found")


def deformable_aggregation(ops: ModuleType, options: Dict):
    class NpuDeformableAggregation:
        @staticmethod
        def apply(*args):
            return mx_driving.multi_scale_deformable_attn(*args)

    ops.DeformableAggregationFunction = NpuDeformableAggregation


def single_precision(data: ModuleType, options: Dict):
    # the NPU has no double precision
    to_tensor = data.to_tensor

    def to_single_precision(array):
        tensor = to_tensor(array)
        return tensor.float() if tensor.is_floating_point() else tensor

    data.to_tensor = to_single_precision


def camera_projection(attention: ModuleType, options: Dict):
    # all() over the last dimension of two is slow, and both comparisons are needed anyway
    @staticmethod
    def project(cells, projection):
        places = torch.matmul(projection[:, :, None], cells[None, None, :, :, None]).squeeze(-1)[..., :2]
        x, y = places.unbind(-1)
        return places, (x > 0) & (x < 1) & (y > 0) & (y < 1)

    attention.CameraAttention.project = project


def warm_up(attention: ModuleType, options: Dict):
    raise RuntimeError("never to be seen: this patch is disabled")


def old_layout(attention: ModuleType, options: Dict):
    # of an older version of the model
    if not hasattr(attention, "SparseAttention"):
        raise AttributeError("SparseAttention attr not found")


def default_optimizer(runner: str):
    """Take the fused optimizer of the same name; mmcv 1 only."""
    module = importlib.import_module(runner)
    build = module.build_optimizer

    def build_optimizer(model, cfg):
        return build(model, {**cfg, "type": "NpuFused" + cfg["type"]})

    module.build_optimizer = build_optimizer


def generate_patcher_builder():
    builder = (
        PatcherBuilder()
        .add_module_patch("torch", Patch(index), Patch(batch_matmul))
        .add_module_patch("numpy", Patch(numpy_type))
        .add_module_patch("mmcv", Patch(dc), Patch(mdc), Patch(msda))
        .add_module_patch("mmcv.parallel", Patch(ddp), Patch(stream))
        .add_module_patch("mmcv.runner.hooks.optimizer", Patch(optimizer_hooks))
        .add_module_patch("mmdet.models.backbones.resnet", Patch(resnet_add_relu), Patch(resnet_maxpool))
        .add_module_patch("projects.occupancy.data", Patch(single_precision))
        .add_module_patch("projects.occupancy.ops.deformable_aggregation", Patch(deformable_aggregation))
        .add_module_patch(
            "projects.occupancy.attention",
            Patch(camera_projection, priority=1),
            Patch(flash_attention, {"layout": "BSND"}),
            Patch(warm_up),
            Patch(old_layout, patch_failure_warning=False),
        )
        .disable_patches("warm_up")
    )
    if os.environ.get("OCCUPANCY_PROFILE"):
        builder.with_profiling(os.environ["OCCUPANCY_PROFILE"], level=1, skip_first=0, wait=1, warmup=0)
    if os.environ.get("OCCUPANCY_PERFORMANCE"):
        builder.brake_at(int(os.environ["OCCUPANCY_PERFORMANCE"]))
    return builder


def _init():
    # not installed, and not needed on an NPU
    sys.modules["flash_attn"] = ModuleType("flash_attn")
    interface = ModuleType("flash_attn.flash_attn_interface")
    interface.flash_attn_func = None
    sys.modules["flash_attn.flash_attn_interface"] = interface
    sys.modules["projects.occupancy.ops.aggregation_ext"] = ModuleType("projects.occupancy.ops.aggregation_ext")

    torch.npu.set_compile_mode(jit_compile=False)
    if importlib.util.find_spec("mmengine") is None:
        default_optimizer("mmcv.runner")


_init()
