"""Linear layers with the usual layers between them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["Perceptron"]


class Perceptron(nn.Module):
    """Embedding, LayerNorm, both kinds of GELU, dropout, sigmoid, log-softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.layers = nn.Sequential(
            nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 3), nn.GELU("tanh")
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logarithms of probabilities, ``[n, 3]``, for ``[n, 8]``."""
        hidden = x + self.embedding(torch.arange(x.shape[0], device=x.device))
        return F.log_softmax(self.layers(hidden) * torch.sigmoid(x.sum(1, keepdim=True)), 1)
