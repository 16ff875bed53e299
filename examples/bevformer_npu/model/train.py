"""Train the small BEVFormer on scenes made from a seed: on the GPU where there is one, else on the CPU."""

from __future__ import annotations

import argparse

import torch
from bevformer import BEVFormer, Scenes
from bevformer.scenes import CLASSES
from torch.utils.data import DataLoader

GRID = (16, 16)
REACH = 16.0


def train(steps: int) -> BEVFormer:
    """Train for some steps, print the loss of each, and return the model."""
    torch.manual_seed(0)
    model = BEVFormer(len(CLASSES), GRID, REACH)
    if torch.cuda.is_available():
        model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    loader = DataLoader(Scenes(2 * steps, GRID, REACH), batch_size=2)
    model.train()
    for step, batch in enumerate(loader, 1):
        if torch.cuda.is_available():
            batch = {name: tensor.cuda(non_blocking=True) for name, tensor in batch.items()}
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}", flush=True)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    model = train(parser.parse_args().steps)
    print(f"trained on {next(model.parameters()).device.type}")
