"""The entry point: every patch of this distribution."""

from __future__ import annotations

import patchcore as pc
from mmcv_npu import deform_conv, multi_scale_deformable_attention, resnet

PATCHES = (
    deform_conv.DEFORM_CONV,
    deform_conv.MODULATED_DEFORM_CONV,
    multi_scale_deformable_attention.MULTI_SCALE_DEFORMABLE_ATTENTION,
    resnet.RESNET_ADD_RELU,
    resnet.RESNET_MAXPOOL,
    resnet.RESNET_FP16,
)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return PATCHES
