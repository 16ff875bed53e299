"""A block of Llama, as in Touvron et al., "LLaMA" (arXiv:2302.13971), with the grouped queries of Llama 2."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["Llama"]


class RMSNorm(nn.Module):
    """Zhang and Sennrich, "Root Mean Square Layer Normalization" (arXiv:1910.07467)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` by its root mean square along the last dimension, weighted."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (arXiv:2104.09864) of ``[batch, heads, length, width]``, halves as pairs."""
    half = x.shape[-1] // 2
    frequencies = 10000.0 ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
    angles = torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)[:, None] * frequencies
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Llama(nn.Module):
    """Causal attention, four heads of queries for two of keys and values, and a gated feed-forward layer (SwiGLU)."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2, inside: int = 24) -> None:
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.attention_norm, self.norm = RMSNorm(width), RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.head, bias=False)
        self.v = nn.Linear(width, groups * self.head, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inside, bias=False), nn.Linear(width, inside, bias=False)
        self.down = nn.Linear(inside, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, length, width]`` for the same."""
        x = x + self._attend(self.attention_norm(x))
        inner = self.norm(x)
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query = rotate(self.q(x).view(batch, length, self.heads, self.head).transpose(1, 2))
        key = rotate(self.k(x).view(batch, length, self.groups, self.head).transpose(1, 2))
        value = self.v(x).view(batch, length, self.groups, self.head).transpose(1, 2)
        each = self.heads // self.groups
        key, value = key.repeat_interleave(each, 1), value.repeat_interleave(each, 1)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o(attended.transpose(1, 2).reshape(batch, length, width))
