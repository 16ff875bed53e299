"""An ordinary training script, written for NumPy before 1.24; it has never heard of patchcore."""

import os

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    """The part of the points that is for one rank, each with the sum of its coordinates."""

    def __init__(self, rank, ranks):
        self.starts = range(rank, 8, ranks)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        first = self.starts[index] % 2
        point = np.arange(first, first + 3, dtype=np.float) / 8
        return torch.from_numpy(point).float(), torch.tensor([point.sum()]).float()


def main():
    """Train for two steps, on as many ranks as torchrun has started."""
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    if ranks > 1:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Points(rank, ranks), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    for step, (points, sums) in zip(range(2), loader):
        loss = (model(points) - sums).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step}: loss {loss.item():.3f} (rank 0 of {ranks})")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
