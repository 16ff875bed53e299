"""Random residual blocks and backbones of mmdet.

Nothing is near the kink of a ReLU, so that rounding does not decide which gradients pass: normalization puts the
result of a block's convolutions around 1, and the summand around -3 or 3. Blocks are not in training, where a
normalization takes the mean away, and with it the gradient of a constant shift: nothing but rounding is left.
"""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import drawing


def block(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a block: with and without downsampling and checkpointing."""
    from mmdet.models.backbones.resnet import BasicBlock, Bottleneck
    from torch import nn

    kind, stride = rng.choice((BasicBlock, Bottleneck)), rng.choice((1, 1, 2))
    channels = 16 if size is pc.Size.SMALL else 64
    image = [size.draw(rng, small=(3, 9), typical=(28, 56)) for _ in "hw"]
    x = _far_from_zero(rng, rng.randint(2, 3), channels, *image)
    downsample = None
    if stride > 1:
        downsample = nn.Sequential(nn.Conv2d(channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
    planes = channels // kind.expansion
    module = kind(channels, planes, stride=stride, downsample=downsample, with_cp=rng.random() < 0.3)
    _set_parameters(rng, module)
    if downsample is not None:
        downsample[1].bias.data.copy_(_far_from_zero(rng, channels))
    return pc.Case(module.eval(), [x.requires_grad_()])


def backbone(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a frozen ResNet of two stages, with a pooling and a number of channels that the kernel takes or not."""
    from mmdet.models.backbones import ResNet
    from torch import nn

    model = ResNet(
        depth=18,
        num_stages=2,
        strides=(1, 2),
        dilations=(1, 1),
        out_indices=(0, 1),
        stem_channels=rng.choice((8, 16, 36)),
        base_channels=8,
        deep_stem=rng.random() < 0.3,
        frozen_stages=2,
    )
    _set_parameters(rng, model)
    model.maxpool = rng.choice((model.maxpool, model.maxpool, nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.Identity()))
    model.train(rng.random() < 0.5)
    image = [size.draw(rng, small=(17, 40), typical=(128, 256)) for _ in "hw"]
    return pc.Case(model, [drawing.normal(rng, rng.randint(1, 2), 3, *image)])


def _far_from_zero(rng: random.Random, *shape: int) -> Any:
    return drawing.uniform(rng, 2.5, 3.5, *shape) * (2 * drawing.integers(rng, 0, 1, *shape) - 1)


def _set_parameters(rng: random.Random, module: Any) -> None:
    """Draw the weights of every convolution and normalization of a module."""
    from torch import nn

    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.data.copy_(0.3 * drawing.normal(rng, *layer.weight.shape) / layer.weight[0].numel() ** 0.5)
        elif isinstance(layer, nn.BatchNorm2d):
            layer.weight.data.copy_(drawing.uniform(rng, 0.06, 0.12, *layer.weight.shape))
            layer.bias.data.fill_(1.0)
