"""Residual networks, as in He et al., "Deep Residual Learning for Image Recognition" (arXiv:1512.03385)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["ResNet", "ResNet50"]


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 and 1x1 beside a shortcut; four times as many channels come out as are inside.

    The stride is that of the 3x3, as in torchvision. The last BatchNorm begins with a weight of 0.2, so that rounding
    does not grow from block to block.
    """

    def __init__(self, channels: int, inside: int, stride: int) -> None:
        super().__init__()
        outside = 4 * inside
        self.conv1 = nn.Conv2d(channels, inside, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inside)
        self.conv2 = nn.Conv2d(inside, inside, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inside)
        self.conv3 = nn.Conv2d(inside, outside, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outside)
        nn.init.constant_(self.bn3.weight, 0.2)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[n, 4 * inside, h / stride, w / stride]`` for ``[n, channels, h, w]``."""
        inner = self.relu(self.bn1(self.conv1(x)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        return self.relu(self.bn3(self.conv3(inner)) + self.downsample(x))


class ResNet(nn.Module):
    """A stem, blocks and a classifier.

    Args:
        blocks: of each stage.
        width: channels behind the stem; all others are multiples of it.
        classes: how many there are.
    """

    def __init__(self, blocks: Sequence[int] = (1, 1), width: int = 4, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        channels, stages = width, []
        for number, count in enumerate(blocks):
            inside = width * 2**number
            for block in range(count):
                stages.append(Bottleneck(channels, inside, 2 if number and not block else 1))
                channels = 4 * inside
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a loss, as a training step has it, for images ``[n, 3, h, w]``: image ``i`` is of class ``i``."""
        stem = F.max_pool2d(self.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        pooled = F.adaptive_avg_pool2d(self.stages(stem), 1).flatten(1)
        return F.cross_entropy(self.fc(pooled), torch.arange(x.shape[0], device=x.device) % self.fc.out_features)


class ResNet50(ResNet):
    """All 50 layers, a quarter as wide as in the paper."""

    def __init__(self) -> None:
        super().__init__((3, 4, 6, 3), width=16)
