"""The training, as it was before: an mmengine Runner, and a data set written for NumPy before 1.24."""

import argparse

import numpy as np
import torch
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    """Points in space, each with the sum of its coordinates."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        first = index % 2
        point = np.arange(first, first + 3, dtype=np.float) / 8
        return torch.from_numpy(point).float(), torch.tensor([point.sum()]).float()


class Model(BaseModel):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, points, sums, mode):
        """Return the loss, the only mode."""
        return {"loss": (self.layer(points) - sums).square().mean()}


def main():
    """Train for two steps; ``--workers spawn`` (the default), ``fork`` or ``none``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", choices=("spawn", "fork", "none"), default="spawn")
    method = parser.parse_args().workers
    workers = {} if method == "none" else {"num_workers": 1, "multiprocessing_context": method}
    torch.manual_seed(0)
    model = Model()
    runner = Runner(
        model=model,
        work_dir="work_dirs",
        train_dataloader=DataLoader(Points(), batch_size=2, **workers),
        train_cfg={"by_epoch": False, "max_iters": 2},
        optim_wrapper={"optimizer": torch.optim.SGD(model.parameters(), lr=0.1)},
        default_hooks={"checkpoint": None},
        log_level="ERROR",
    )
    runner.train()
    losses, _ = runner.message_hub.get_scalar("train/loss").data
    print("losses:", *(f"{loss:.3f}" for loss in losses))
