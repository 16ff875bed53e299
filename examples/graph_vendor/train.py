"""Trains a small network with attention: how far is each number of a row below the largest one?"""

from __future__ import annotations

import argparse

import torch
from torch import nn


class Net(nn.Module):
    """Attention over a row of numbers, then a perceptron for each of them."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.project = nn.Linear(width, 3 * width)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 1)
        )

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return a distance for each number of ``[batch, length]``."""
        x = self.embed(numbers.unsqueeze(-1))
        query, key, value = self.project(x).unflatten(-1, (3, -1)).unbind(-2)
        weights = torch.softmax(query @ key.mT * key.shape[-1] ** -0.5, dim=-1)
        return self.perceptron(x + weights @ value).squeeze(-1)


def train(backend: str, steps: int, dynamic: bool) -> list[float]:
    """Return the loss of each step; under ``dynamic`` the rows of each batch have another length."""
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    compiled = torch.compile(model, backend=backend, dynamic=dynamic)
    losses = []
    for step in range(steps):
        numbers = torch.rand(64, 4 + step % 5 if dynamic else 8)
        loss = nn.functional.mse_loss(compiled(numbers), numbers.amax(1, keepdim=True) - numbers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="patchcore_acme")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--compare", action="store_true", help="train with eager PyTorch, too")
    options = parser.parse_args()
    losses = train(options.backend, options.steps, options.dynamic)
    if options.compare:
        torch.compiler.reset()
        expected = train("eager", options.steps, options.dynamic)
        worst = max(abs(one / other - 1) for one, other in zip(losses, expected))
        print(f"losses differ from eager by {worst:.0e} at most")
