"""A program for the fake CANN: trains a model on the CPU and on the NPU, prints both series of losses as JSON."""

from __future__ import annotations

import json
import sys
from typing import Optional

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 4


class Block(nn.Module):
    """A block of a transformer: layer norm and gelu, or rms norm and swiglu; causal or not."""

    def __init__(self, width: int, heads: int, causal: bool, llama: bool) -> None:
        super().__init__()
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.first, self.second = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear((2 if llama else 4) * width, width)
        self.heads, self.causal, self.llama = heads, causal, llama

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.first(x)).split(c, dim=2))
        if self.llama:
            q, k = rotated(q), rotated(k)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(t, t, device=x.device).tril() == 0, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
        hidden = self.up(self.second(x))
        if self.llama:
            gate, value = hidden.chunk(2, -1)
            return x + self.down(F.silu(gate) * value)
        return x + self.down(F.gelu(hidden))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Return queries or keys turned by their position, as Llama does."""
    half = x.shape[-1] // 2
    rates = 1 / 10000 ** (torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * rates
    cosine, sine = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine


class Transformer(nn.Module):
    """A small GPT, Llama or BERT that predicts a class for each position."""

    def __init__(self, causal: bool, llama: bool = False, words: int = 50, width: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width, 4, causal, llama) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden)).flatten(0, 1)


class Residual(nn.Module):
    """A convolution with batch norm, and a short cut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.norm(self.conv(x)))


def make(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a model, its input and its target."""
    torch.manual_seed(0)
    if name == "mlp":
        model: nn.Module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        return model, torch.randn(8, 16), torch.randint(0, 4, (8,))
    if name == "cnn":
        model = nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Residual(8),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
        )  # fmt: skip
        return model, torch.randn(4, 3, 32, 32), torch.randint(0, 4, (4,))
    model = Transformer(causal=name != "bert", llama=name == "llama")
    return model, torch.randint(0, 50, (3, 12)), torch.randint(0, 50, (36,))


def train(name: str, device: str, dtype: Optional[torch.dtype]) -> list[float]:
    """Return the losses of some steps."""
    model, x, y = make(name)
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9) if name == "cnn" else torch.optim.AdamW(
        model.parameters(), 1e-2
    )  # fmt: skip
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    losses = []
    for _ in range(STEPS):
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    chosen = getattr(torch, sys.argv[2]) if len(sys.argv) > 2 else None
    print(json.dumps({device: train(sys.argv[1], device, chosen) for device in ("cpu", "npu")}))
