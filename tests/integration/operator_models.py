"""A model and its training steps, for ``patchcore ops``: their operators are listed in operator_lists.py."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """A basic block of a ResNet that halves the image and widens the channels."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride=2, bias=False), nn.BatchNorm2d(outside))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet(nn.Module):
    """Stem, one block, pooling, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.block = Block(4, 8)
        self.average = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.norm(self.conv(x))))
        return self.classifier(torch.flatten(self.average(self.block(x)), 1))


def train_resnet(device: str) -> None:
    """Two steps of SGD with momentum and weight decay, gradients clipped."""
    model = ResNet().to(device)
    images, labels = torch.ones(2, 3, 32, 32).to(device), torch.tensor([1, 4]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
