"""Predefined patches of mmdet."""

from __future__ import annotations

from patchcore.compat.mx_driving.predefined import Predefined, legacy_function

__all__ = [
    "PseudoSampler",
    "ResNetAddRelu",
    "ResNetFP16",
    "ResNetMaxPool",
    "pseudo_sampler",
    "resnet_add_relu",
    "resnet_fp16",
    "resnet_maxpool",
]


class PseudoSampler(Predefined):
    """PseudoSampler without the unique that changes nothing."""

    name = "pseudo_sampler"
    legacy_name = "pseudo_sampler"
    target_module = "mmdet"
    provided_by = ("pseudo_sampler",)
    distribution = "mmcv-npu-patches"


class ResNetAddRelu(Predefined):
    """Residual addition and ReLU in one kernel."""

    name = "resnet_add_relu"
    legacy_name = "resnet_add_relu"
    target_module = "mmdet"
    provided_by = ("resnet_add_relu",)
    distribution = "mmcv-npu-patches"


class ResNetMaxPool(Predefined):
    """Pooling of the ResNet stem on the kernel."""

    name = "resnet_maxpool"
    legacy_name = "resnet_maxpool"
    target_module = "mmdet"
    provided_by = ("resnet_maxpool",)
    distribution = "mmcv-npu-patches"


class ResNetFP16(Predefined):
    """ResNet under float16 autocast."""

    name = "resnet_fp16"
    legacy_name = "resnet_fp16"
    target_module = "mmdet"
    provided_by = ("resnet_fp16",)
    distribution = "mmcv-npu-patches"
    conflicts_with = ["resnet_maxpool"]


pseudo_sampler = legacy_function(PseudoSampler)
resnet_add_relu = legacy_function(ResNetAddRelu)
resnet_maxpool = legacy_function(ResNetMaxPool)
resnet_fp16 = legacy_function(ResNetFP16)
