"""mmdet's ResNet on the NPU: fused residual addition, pooling kernel, half precision.

The bodies follow mmdet 2.28.2 and 3.3.0, which are the same. Anywhere but on the NPU the originals run.
"""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc
from mmcv_npu import kernels

_RESNET = "mmdet.models.backbones.resnet"


def is_on_npu(self: Any, x: Any) -> bool:
    """Return whether a forward pass is one for the NPU; arguments as for the forward passes below."""
    return kernels.takes(x)


def basic_block_forward(self: Any, x: Any) -> Any:
    """Replace ``BasicBlock.forward``: the last addition and its ReLU are one kernel.

    Args:
        self: the block.
        x: (batch, channels, height, width).
    """
    return _checkpointed(self, x, _basic_block_body)


def bottleneck_forward(self: Any, x: Any) -> Any:
    """Replace ``Bottleneck.forward``: the last addition and its ReLU are one kernel; plugins are kept.

    Args:
        self: the block.
        x: (batch, channels, height, width).
    """
    return _checkpointed(self, x, _bottleneck_body)


def _checkpointed(block: Any, x: Any, body: Callable[[Any, Any], Any]) -> Any:
    if block.with_cp and x.requires_grad:
        from torch.utils.checkpoint import checkpoint

        # mmdet leaves the argument out, and gets use_reentrant=True
        return checkpoint(body, block, x, use_reentrant=True)
    return body(block, x)


def _basic_block_body(block: Any, x: Any) -> Any:
    out = block.relu(block.norm1(block.conv1(x)))
    out = block.norm2(block.conv2(out))
    return _add_identity(block, x, out)


def _bottleneck_body(block: Any, x: Any) -> Any:
    out = block.relu(block.norm1(block.conv1(x)))
    if block.with_plugins:
        out = block.forward_plugin(out, block.after_conv1_plugin_names)
    out = block.relu(block.norm2(block.conv2(out)))
    if block.with_plugins:
        out = block.forward_plugin(out, block.after_conv2_plugin_names)
    out = block.norm3(block.conv3(out))
    if block.with_plugins:
        out = block.forward_plugin(out, block.after_conv3_plugin_names)
    return _add_identity(block, x, out)


def _add_identity(block: Any, x: Any, out: Any) -> Any:
    import torch
    from mx_driving import npu_add_relu

    # in the dtype that the original's in-place addition keeps; the kernel does not mix dtypes
    identity = (x if block.downsample is None else block.downsample(x)).type_as(out)
    if out.dtype in (torch.float32, torch.float16):
        return npu_add_relu(out, identity)
    return block.relu(out + identity)


def resnet_forward(self: Any, x: Any) -> tuple[Any, ...]:
    """Replace ``ResNet.forward``: pool with the NPU kernel where it computes the same as the module's pooling.

    Args:
        self: the backbone.
        x: (batch, 3, height, width).

    Returns:
        The feature maps of ``self.out_indices``.
    """
    from mx_driving import npu_max_pool2d

    x = self.stem(x) if self.deep_stem else self.relu(self.norm1(self.conv1(x)))
    x = npu_max_pool2d(x, 3, 2, 1) if pooling_fits(self.maxpool, x) else self.maxpool(x)
    outs = []
    for index, name in enumerate(self.res_layers):
        x = getattr(self, name)(x)
        if index in self.out_indices:
            outs.append(x)
    return tuple(outs)


def pooling_fits(pooling: Any, x: Any) -> bool:
    """Return whether the kernel (mx-driving 26.2) computes ``pooling(x)``; it has no backward pass.

    Args:
        pooling: the module in the place of ``ResNet.maxpool``, which models for small images replace.
        x: (batch, channels, height, width).
    """
    import torch

    if x.requires_grad or type(pooling) is not torch.nn.MaxPool2d:
        return False
    window = (pooling.kernel_size, pooling.stride, pooling.padding, pooling.dilation)
    lanes = {torch.float32: 8, torch.float16: 16}.get(x.dtype)
    return (
        window == (3, 2, 1, 1)
        and not pooling.ceil_mode
        and not pooling.return_indices
        and lanes is not None
        and x.shape[1] % lanes == 0
        and x.shape[1] <= 1024
    )


def half_precision_forward(original: Callable[..., tuple[Any, ...]], self: Any, x: Any) -> tuple[Any, ...]:
    """Wrap ``ResNet.forward``: on the NPU run it under float16 autocast and return float32 feature maps.

    Args:
        original: the forward that is wrapped.
        self: the backbone.
        x: (batch, 3, height, width).
    """
    import torch

    if not kernels.takes(x):
        return original(self, x)
    with torch.autocast(x.device.type, dtype=torch.float16):
        outs = original(self, x)
    return tuple(out.float() for out in outs)


RESNET_ADD_RELU = pc.Patch(
    "mmdet.resnet_add_relu",
    [
        pc.Replace(f"{_RESNET}:BasicBlock.forward", basic_block_forward, when_call=is_on_npu),
        pc.Replace(f"{_RESNET}:Bottleneck.forward", bottleneck_forward, when_call=is_on_npu),
    ],
    summary="residual addition and ReLU of the ResNet blocks in one kernel",
    requires="mmdet>=2,<4",
    needs="mx_driving",
    legacy_names=["resnet_add_relu", "ResNetAddRelu"],
    # the kernel takes float32 and float16; other dtypes are added and cut off by torch
    checks=pc.Check("mmcv_npu.checks.resnet:block", dtypes={"float32": 5e-3, "float16": 1e-2, "bfloat16": 5e-2}),
)

RESNET_MAXPOOL = pc.Patch(
    "mmdet.resnet_maxpool",
    [pc.Replace(f"{_RESNET}:ResNet.forward", resnet_forward, when_call=is_on_npu)],
    summary="pooling kernel in the ResNet stem where no gradient passes it",
    requires="mmdet>=2,<4",
    needs="mx_driving",
    legacy_names=["resnet_maxpool", "ResNetMaxPool"],
    checks=pc.Check("mmcv_npu.checks.resnet:backbone", dtypes={"float32": 5e-3, "float16": 1e-2}),
)

RESNET_FP16 = pc.Patch(
    "mmdet.resnet_fp16",
    [pc.Wrap(f"{_RESNET}:ResNet.forward", half_precision_forward)],
    summary="ResNet under float16 autocast, float32 feature maps",
    requires="mmdet>=2,<4",
    legacy_names=["resnet_fp16", "ResNetFP16"],
    # two answers to one question, of which a user wants one (so does mx_driving.patcher 2.0)
    conflicts=["mmdet.resnet_maxpool"],
    default=False,
    checks=pc.Check("mmcv_npu.checks.resnet:backbone", dtypes={"float32": 2e-2}),
)
