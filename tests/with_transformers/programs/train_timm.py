"""Trains a model of timm on random pictures, as a program for CUDA."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import timm
import torch


def main(name: str, file: str) -> None:
    """Take four steps; write the losses and the device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    options = {"img_size": 32, "patch_size": 8} if name.startswith("vit") else {}
    model = timm.create_model(name, pretrained=False, num_classes=5, **options).to(device).train()
    pictures = torch.randn(8, 3, 32, 32).to(device)
    labels = (torch.arange(8) % 5).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    result = {"losses": losses, "device": str(next(model.parameters()).device)}
    Path(file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
