"""What each process of test_ddp_mmcv1.py does: train with mmcv's MMDistributedDataParallel on its share of the samples.

``python data_parallel_program.py RANK SIZE FILE BACKEND`` prints what it found as JSON; FILE is where the processes
find each other. With BACKEND hccl the model is on an emulated NPU, with gloo on the CPU.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import torch

# A process group that exists when torch._dynamo is imported, as DistributedDataParallel does, is never freed (torch
# 2.13): gloo's threads then run on after destroy_process_group(), and one that frees a tensor while the interpreter
# exits aborts the process (https://github.com/pytorch/pytorch/pull/179291).
import torch._dynamo
from torch import Tensor, nn

STEPS = 3
SAMPLES = torch.linspace(-1, 1, 32).reshape(8, 4)


class Regression(nn.Module):
    """A model as mmcv trains it: ``train_step`` gives a loss, and so does ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.devices: set[str] = set()

    def forward(self, samples: Tensor, weight: float = 1.0) -> Tensor:
        self.devices.add(str(samples.device))
        return weight * (self.layers(samples) - samples[:, :2]).square().mean()

    def train_step(self, data: dict[str, Any], optimizer: Any) -> dict[str, Any]:
        return {"loss": self(data["samples"], data["weight"])}


def train(model: nn.Module, samples: Any, *, by_step: bool) -> list[list[float]]:
    """Train some steps, by ``train_step`` or by ``forward``; return the weights."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        if by_step:
            loss = model.train_step({"samples": samples, "weight": 2.0}, optimizer)["loss"]
        else:
            loss = model(samples, weight=2.0)
        loss.backward()
        optimizer.step()
    return [parameter.flatten().tolist() for parameter in model.parameters()]


def main(rank: int, size: int, rendezvous: str, backend: str) -> None:
    """Join the group, train in each way, print what was found."""
    import torch.distributed as dist

    import patchcore
    from mmcv_npu.distributed import DDP, DDP_FORWARD
    from mmcv_npu.torchvision import TORCHVISION

    # before mmcv is imported: the patches are made when it is
    with patchcore.Patcher([TORCHVISION, DDP, DDP_FORWARD], strict=True):
        from mmcv.parallel import DataContainer, MMDistributedDataParallel

        on_npu = backend == "hccl"
        if on_npu:
            torch.npu.set_device(rank)
        dist.init_process_group(backend, init_method=f"file://{rendezvous}", rank=rank, world_size=size)
        share = SAMPLES.chunk(size)[rank]
        ways = {"tensor": share, **({"container": DataContainer([share], stack=True)} if on_npu else {})}
        found = {}
        for name, samples in ways.items():
            for by_step in (True, False):
                plain = Regression().to(f"npu:{rank}" if on_npu else "cpu")
                model = MMDistributedDataParallel(plain, device_ids=[rank] if on_npu else None)
                weights = train(model, samples, by_step=by_step)
                found[f"{name}, {'train_step' if by_step else 'forward'}"] = [weights, sorted(plain.devices)]
        del plain, model
        gc.collect()  # a model keeps its process group
        dist.destroy_process_group()
    assert not gloo_threads()
    print(json.dumps(found))


def gloo_threads() -> list[str]:
    """Return the names of gloo's threads in this process; Linux only."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


def run_ranks(size: int, rendezvous: Path, backend: str) -> list[dict[str, Any]]:
    """Run :func:`main` in processes of their own.

    Args:
        size: how many.
        rendezvous: a file that there is not yet.
        backend: gloo or hccl.

    Returns:
        What each found, in the order of ranks.
    """
    from rank_processes import run_processes  # which the processes themselves do not see

    environment = {"OMP_NUM_THREADS": "1"}
    arguments = [[__file__, str(rank), str(size), str(rendezvous), backend] for rank in range(size)]
    return run_processes([(of_rank, environment) for of_rank in arguments])


if __name__ == "__main__":
    import npu_emulator

    npu_emulator.install()
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
