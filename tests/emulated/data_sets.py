"""Data sets that worker processes can import."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset


class Squares(Dataset):
    """The squares of 0 to 15, each made in the process that asks."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(index**2)]), index


def describe_npu(index: int, results: object) -> None:
    """Compute on the emulated NPU of a spawned process.

    Args:
        index: the device to compute on.
        results: a queue; gets the device and the result.
    """
    tensor = torch.arange(3.0, device=f"npu:{index}") + index
    results.put((str(tensor.device), tensor.tolist()))  # type: ignore[attr-defined]
