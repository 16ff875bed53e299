"""Small models with what large ones are made of, random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["MODELS", "Model", "sample"]


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.layers(x) * torch.sigmoid(x.sum(1, keepdim=True)), 1)


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
        self.short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(self.first(x)) + self.short(x), inplace=True)


class ResNet(nn.Module):
    """Gives a loss, as a training step has it."""

    def __init__(self) -> None:
        super().__init__()
        stem = [nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        self.body = nn.Sequential(*stem, Residual(4, 8, 1), Residual(8, 8, 2))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = F.adaptive_avg_pool2d(self.body(x), 1).flatten(1)
        return F.cross_entropy(self.head(pooled), torch.arange(x.shape[0]) % 5)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.wide = nn.Sequential(nn.Linear(16, 32), nn.GELU(approximate="tanh"), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        hidden = x + self.embedding(torch.arange(length))
        heads = self.qkv(self.norms[0](hidden)).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        hidden = hidden + self.out(attended.transpose(1, 2).reshape(batch, length, 16))
        return hidden + self.wide(self.norms[1](hidden))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, 2, 1)
        self.norm = nn.GroupNorm(2, 8)
        self.middle = nn.Conv2d(8, 8, 3, 1, 1)
        self.time = nn.Linear(4, 8)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.out = nn.Conv2d(11, 3, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time = self.time(F.silu(x.mean((1, 2, 3))[:, None] * torch.arange(4)))
        hidden = self.middle(F.silu(self.norm(self.down(x)))) + time[:, :, None, None]
        enlarged = F.interpolate(hidden, scale_factor=2.0, mode="nearest")
        return self.out(torch.cat([enlarged + self.up(hidden), x], 1))


class Model(NamedTuple):
    """A model and the shapes it is tried with: all are compiled for once when sizes are dynamic."""

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]


MODELS = {
    "perceptron": Model(Perceptron, ((4, 8), (5, 8))),
    "resnet": Model(ResNet, ((2, 3, 32, 32), (3, 3, 48, 48))),
    "transformer": Model(Transformer, ((2, 5, 16), (3, 6, 16))),
    "unet": Model(UNet, ((2, 3, 16, 16), (3, 3, 24, 24))),
}


def sample(x: torch.Tensor) -> torch.Tensor:
    """A function of many operators, for tests that ask for no gradient. ``x``: ``[2, 4, 6, 6]``."""
    scale = x.var((0, 2, 3), keepdim=True).rsqrt()
    kernel = x[:, :, :3, :3].contiguous()
    image = F.relu(F.conv2d(x * scale, kernel, padding=1)) + x.sum((1, 2, 3), keepdim=True)
    pooled = F.max_pool2d(torch.cat([image, x], 1), 2)
    weights = torch.softmax(pooled.flatten(2) @ pooled.flatten(2).transpose(1, 2), -1)
    return torch.where(weights > 0.2, weights.exp(), weights.neg()).cumsum(1).flip(2)[:, 1:]
