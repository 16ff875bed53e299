"""Sweeps of a lidar drawn from a seed, with the boxes of objects."""

import numpy as np
import torch
from torch.utils.data import Dataset


class Sweeps(Dataset):
    """Sweeps over a square, from -1 to 1 in x and y.

    Args:
        length: number of sweeps.
        points: of each sweep.
        objects: of each sweep.
    """

    def __init__(self, length, points=512, objects=3):
        self.length, self.points, self.objects = length, points, objects

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        centres = rng.uniform(-0.8, 0.8, (self.objects, 2))
        ground = np.zeros((self.objects, 1))
        sizes = np.full((self.objects, 3), 0.4)
        boxes = np.concatenate([centres, ground, sizes, ground], axis=1)
        points = rng.uniform(-1, 1, (self.points, 4))
        near = (np.abs(points[:, None, :2] - centres).max(-1) < 0.2).any(1)
        points[:, 2] = np.where(near, 0.3, 0.05) + 0.02 * points[:, 2]
        return {"points": torch.from_numpy(points), "boxes": torch.from_numpy(boxes)}
