"""One level of the U-Net of a diffusion model, as in Ho et al., "Denoising Diffusion" (arXiv:2006.11239)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["UNet"]


def embed(steps: torch.Tensor, width: int) -> torch.Tensor:
    """Return sines and cosines, ``[n, width]``, of time steps ``[n]``."""
    half = width // 2
    frequencies = torch.exp(-math.log(10000.0) / half * torch.arange(half, device=steps.device, dtype=steps.dtype))
    angles = steps[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)


class Residual(nn.Module):
    """GroupNorm, SiLU and convolution, twice, with the time in between."""

    def __init__(self, channels: int, outside: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(2, channels), nn.Conv2d(channels, outside, 3, padding=1)
        self.time = nn.Linear(time, outside)
        self.norm2, self.conv2 = nn.GroupNorm(2, outside), nn.Conv2d(outside, outside, 3, padding=1)
        self.short = nn.Conv2d(channels, outside, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return ``[n, outside, h, w]`` for ``[n, channels, h, w]`` and ``[n, time]``."""
        inner = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(inner))) + self.short(x)


class Attention(nn.Module):
    """Self-attention of all places of an image, one head."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[n, channels, h, w]`` for the same."""
        query, key, value = self.qkv(self.norm(x)).flatten(2).chunk(3, 1)
        weights = torch.softmax(query.transpose(1, 2) @ key / math.sqrt(x.shape[1]), -1)
        return x + self.out((value @ weights.transpose(1, 2)).view_as(x))


class UNet(nn.Module):
    """Down by a strided convolution, attention, up by a transposed and by nearest neighbours, with skip connections."""

    def __init__(self, channels: int = 8, time: int = 8) -> None:
        super().__init__()
        self.width = time
        self.time = nn.Sequential(nn.Linear(time, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, channels, 3, 2, 1)
        self.inner = Residual(channels, 2 * channels, time)
        self.attention = Attention(2 * channels)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.smooth = nn.Conv2d(2 * channels, channels, 3, padding=1)
        self.outer = Residual(2 * channels, channels, time)
        self.out = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[n, 3, h, w]`` for the same, each image at a time step of its own."""
        time = self.time(embed(100.0 * torch.arange(x.shape[0], device=x.device, dtype=x.dtype), self.width))
        entered = self.enter(x)
        inner = self.attention(self.inner(self.down(entered), time))
        enlarged = self.smooth(F.interpolate(inner, scale_factor=2.0, mode="nearest")) + self.up(inner)
        return self.out(self.outer(torch.cat([enlarged, entered], 1), time))
