"""Two models and a training step, for ``patchcore ops``: their operators are listed in operator_lists.py."""

from __future__ import annotations

from typing import Any

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


class Transformer(nn.Module):
    """An encoder layer, written out: attention, normalisation after each part, GELU, dropout."""

    def __init__(self, words: int = 11, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(words, width)
        self.projection = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        x = self.norm1(x + self.dropout(self.attention(x)))
        x = self.norm2(x + self.dropout(self.narrow(nn.functional.gelu(self.widen(x)))))
        return self.classifier(x)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.projection(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        weights = torch.softmax(query @ key.transpose(-2, -1) / (width // self.heads) ** 0.5, dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))


def train_resnet(device: str) -> None:
    """Two steps of SGD with momentum and weight decay, gradients clipped."""
    model = ResNet().to(device)
    images, labels = torch.ones(2, 3, 32, 32).to(device), torch.tensor([1, 4]).to(device)
    train(model, images, labels, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4), steps=2)


def train_transformer(device: str) -> None:
    """A step of AdamW, gradients clipped."""
    model = Transformer().to(device)
    tokens, labels = torch.tensor([[1, 2, 3], [4, 5, 6]]).to(device), torch.tensor([2, 3, 4, 5, 6, 7]).to(device)
    train(model, tokens, labels, torch.optim.AdamW(model.parameters(), 0.1), steps=1)


def train(model: Any, inputs: torch.Tensor, labels: torch.Tensor, optimizer: Any, *, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
