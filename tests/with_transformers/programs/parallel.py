"""Trains a Llama on two ranks, for CUDA: FSDP2 (``fully_shard``) or tensor parallel (``tp_plan="auto"``)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import transformers


def main(how: str, folder: str) -> None:
    """Take five steps; rank 0 writes the losses."""
    rank = int(os.environ["RANK"])
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(rank)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(0)
    if how == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        model = transformers.AutoModelForCausalLM.from_pretrained(folder).to(device)
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    ids = torch.arange(24).view(2, 12).to(device) % 32
    losses = []
    for _ in range(5):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if rank == 0:
        Path(folder, "losses.json").write_text(
            json.dumps({"losses": losses, "device": str(loss.device)}), encoding="utf-8"
        )
    dist.destroy_process_group()


main(*sys.argv[1:])
