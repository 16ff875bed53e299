"""The training loop."""

import torch
from torch import Tensor, nn

from tinymegatron.arguments import get_args
from tinymegatron.core.transformer import Layer


def loss_of(output: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of one step."""
    return nn.functional.cross_entropy(output.flatten(0, 1), labels.flatten())


def log(step: int, loss: float) -> None:
    """Print a line of the log."""
    print(f"step {step} loss {loss:.6f}")


def pretrain() -> None:
    """Train a model of two layers on random tokens."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 32), Layer(32), Layer(32), nn.Linear(32, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, get_args().steps + 1):
        tokens = torch.randint(0, 64, (4, 16))
        loss = loss_of(model(tokens), tokens.roll(-1, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log(step, loss.item())
