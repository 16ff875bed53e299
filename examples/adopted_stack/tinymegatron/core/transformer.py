"""A transformer layer."""

import torch
from torch import Tensor, nn

from tinymegatron.core import fusions
from tinymegatron.core.fusions import rms_norm  # bound by value, as in many places of Megatron


class Norm(nn.Module):
    """The norm in front of each block."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize ``x``."""
        return rms_norm(x, self.weight)


class Layer(nn.Module):
    """Attention, then a gated MLP, each behind a norm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.input_norm, self.mlp_norm = Norm(size), Norm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(2 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden states after this layer."""
        query, key, value = self.qkv(self.input_norm(x)).chunk(3, -1)
        x = x + self.out(fusions.attention_scores(query, key) @ value)
        return x + self.down(fusions.swiglu(self.up(self.mlp_norm(x))))
