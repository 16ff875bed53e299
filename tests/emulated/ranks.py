"""What every process of the distributed tests does, one emulated NPU each."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # before there is a process group, see tests/openmmlab/data_parallel_program.py
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FOLDER = Path(__file__).parent
STEPS = 3
SAMPLES = torch.linspace(-1, 1, 32).reshape(8, 4)


def run_ranks(number: int, rendezvous: Path) -> list[dict[str, Any]]:
    """Run :func:`main` in processes of their own.

    Args:
        number: how many.
        rendezvous: a file that there is not yet, for the processes to find each other.

    Returns:
        What each found, in the order of ranks.
    """
    from rank_processes import run_processes  # which the processes themselves do not see

    code = "import npu_emulator; npu_emulator.install(); import ranks; ranks.main()"
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    shared = {"PYTHONPATH": path, "RENDEZVOUS": str(rendezvous), "WORLD_SIZE": str(number)}
    return run_processes([(["-c", code], {**shared, "RANK": str(rank)}) for rank in range(number)])


def main() -> None:
    """Join the group, run every scenario, print what was found as JSON."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method=f"file://{os.environ['RENDEZVOUS']}", rank=rank, world_size=size)
    found = {scenario.__name__: scenario(rank, size) for scenario in (data_parallel, batch_norm)}
    dist.destroy_process_group()
    print(json.dumps(found))


def network() -> nn.Sequential:
    """Return the same small network in every process."""
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def train(model: nn.Module, samples: torch.Tensor) -> list[float]:
    """Return the losses of a few steps."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(samples) - samples[:, :2]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def data_parallel(rank: int, size: int) -> dict[str, Any]:
    """Train on this rank's share of the samples."""
    model = DistributedDataParallel(network().npu(), device_ids=[rank])
    samples = SAMPLES.chunk(size)[rank].npu()
    losses = train(model, samples)
    with model.no_sync():
        model.zero_grad()
        model(samples).sum().backward()
        own = model.module[0].weight.grad.flatten().tolist()
    return {
        "losses": losses,
        "weights": [parameter.flatten().tolist() for parameter in model.parameters()],
        "device": str(next(model.parameters()).device),
        "own gradient": own,
    }


def batch_norm(rank: int, size: int) -> dict[str, Any]:
    """Normalise this rank's share of the samples with everybody's statistics."""
    norm = nn.SyncBatchNorm.convert_sync_batchnorm(normalising())
    model = DistributedDataParallel(norm.npu(), device_ids=[rank])
    samples = SAMPLES.chunk(size)[rank].npu().requires_grad_()
    result = model(samples)
    (result * result.detach().exp()).mean().backward()
    return {
        "class": type(norm[0]).__name__,
        "result": result.tolist(),
        "running": [norm[0].running_mean.tolist(), norm[0].running_var.tolist()],
        "input gradient": samples.grad.tolist(),
        "gradients": [parameter.grad.tolist() for parameter in model.parameters()],
    }


def normalising() -> nn.Sequential:
    """Return a batch norm whose scale and shift do something."""
    norm = nn.BatchNorm1d(4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 0.5, 1.5]))
        norm.bias.copy_(torch.tensor([0.0, 1.0, -1.0, 0.5]))
    return nn.Sequential(copy.deepcopy(norm))
