"""
NPU patches of the model of pillars.

Usage:
    from mx_driving.patcher import default_patcher
    from migrate_to_ascend.patch import configure_patcher

    configure_patcher(default_patcher, performance=False)
    default_patcher.apply()
"""

from __future__ import annotations

import os

import mx_driving
import torch
import torch_npu
from mx_driving.patcher import (
    AtomicPatch,
    OptimizerHooks,
    OptimizerWrapper,
    Patch,
    Patcher,
    RegistryPatch,
    ResNetFP16,
    ResNetMaxPool,
    TorchScatter,
    is_mmcv_v1x,
    replace_with,
)
from mx_driving.patcher.patch import with_imports


def _points_in_boxes(points, boxes):
    return mx_driving.points_in_boxes_all(boxes, points)


def configure_patcher(patcher: Patcher, performance: bool = False) -> Patcher:
    # not installed, and not needed
    patcher.skip_import("flash_attn", "ipdb", "ipdb.set_trace")
    patcher.skip_import("torch_scatter")

    # CUDA extensions
    patcher.replace_import("projects.pillars.ops.boxes", points_in_boxes=_points_in_boxes)
    patcher.replace_import("keypoint_ext", replace_with.module("migrate_to_ascend.keypoints", BACKEND="npu"))

    # the configuration names it, and nobody imports it
    patcher.inject_import("projects.pillars.models.head_v1", "PillarHeadV1", "projects.pillars.models")

    patcher.add(TorchScatter, OptimizerHooks, OptimizerWrapper)
    patcher.disable(ResNetMaxPool).add(ResNetFP16)
    patcher.add(FlashAttention, PillarEncoder, SinglePrecision, HcclBackend, FusedOptimizer)
    patcher.add(AtomicPatch("projects.pillars.models.net.PillarNet.draw", lambda self: None))
    patcher.disable("pillars_old")
    patcher.add(OldHead)

    if os.environ.get("PILLARS_PROFILE"):
        patcher.with_profiling(os.environ["PILLARS_PROFILE"], level=1, skip_first=0, wait=1, warmup=0)
    if performance:
        patcher.brake_at(3)
    return patcher


class FlashAttention(Patch):
    """Attention by npu_fusion_attention."""

    name = "pillars_flash_attention"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("projects.pillars.models.attention.FlashAttention.forward", cls._forward)]

    @staticmethod
    @with_imports(
        ("projects.pillars.models.attention", "in_float32"),
        "@in_float32(apply_to=('query', 'key', 'value'))",
    )
    def _forward(self, query, key, value):
        scale = query.shape[-1] ** -0.5
        return torch_npu.npu_fusion_attention(query, key, value, query.shape[-2], "BSND", scale=scale)[0]


class PillarEncoder(Patch):
    """Without the detour to int64, and without a pass for the deviation."""

    name = "pillars_encoder"

    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch(
                "projects.pillars.models.encoder.pillar_index",
                cls._pillar_index,
                aliases=["projects.pillars.models.net.pillar_index"],
                precheck=lambda target: target.endswith("pillar_index"),
            ),
            AtomicPatch(
                "projects.pillars.models.encoder.normalize",
                cls._normalize,
                runtime_check=lambda features: features.dim() == 3 and features.device.type == "npu",
            ),
        ]

    @staticmethod
    @with_imports("torch")
    def _pillar_index(points, size):
        cells = ((points[..., :2] + 1) / 2 * size).int().clamp(0, size - 1)
        sweep = torch.arange(len(points), device=points.device)
        return torch.add(torch.add(sweep[:, None] * size, cells[..., 1]) * size, cells[..., 0])

    @staticmethod
    def _normalize(features):
        deviation, mean = torch.std_mean(features, (0, 1))
        return (features - mean) / (deviation + 1e-3)


class SinglePrecision(Patch):
    """The NPU has no double precision."""

    name = "pillars_single_precision"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("projects.pillars.data.Sweeps.__getitem__", target_wrapper=cls._in_single_precision)]

    @staticmethod
    def _in_single_precision(getitem):
        def get(self, index):
            return {name: tensor.float() for name, tensor in getitem(self, index).items()}

        return get


class HcclBackend(Patch):
    """HCCL for NCCL, mmcv 1."""

    name = "pillars_hccl_backend"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("mmcv.runner.init_dist", cls._init_dist, precheck=is_mmcv_v1x)]

    @staticmethod
    @with_imports(("mmcv.runner.dist_utils", "mp", "_init_dist_pytorch"))
    def _init_dist(launcher, backend="nccl", **kwargs):
        if mp.get_start_method(allow_none=True) is None:  # noqa: F821
            mp.set_start_method("spawn")  # noqa: F821
        assert launcher == "pytorch"
        _init_dist_pytorch("hccl", **kwargs)  # noqa: F821


class FusedOptimizer(Patch):
    """The fused SGD by the name of the other."""

    name = "pillars_fused_optimizer"

    @classmethod
    def patches(cls, options=None):
        return [
            RegistryPatch("mmengine.registry.OPTIMIZERS", name="SGD", module_factory=cls._fused_sgd),
            RegistryPatch("mmcv.runner.optimizer.builder.OPTIMIZERS", name="SGD", module_factory=cls._fused_sgd),
        ]

    @staticmethod
    def _fused_sgd():
        return torch_npu.optim.NpuFusedSGD


class OldHead(Patch):
    """For a head that the model has no more."""

    name = "pillars_old"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("projects.pillars.models.head_v0.PillarHeadV0.forward", lambda self, features: features)]
