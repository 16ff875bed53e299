"""Scenes drawn from a seed: images of cameras, where the cameras look, and which cells of a grid are occupied."""

import numpy as np
import torch
from torch.utils.data import Dataset


def to_tensor(array):
    """Return an array as a tensor, in the precision that it was computed in."""
    return torch.from_numpy(np.ascontiguousarray(array))


class Scenes(Dataset):
    """Scenes of a few cameras.

    Args:
        length: number of scenes.
        grid: cells in both directions.
        cameras: in each scene.
        image_size: height and width in pixels.
    """

    def __init__(self, length, grid=(8, 8), cameras=2, image_size=(64, 64)):
        self.length = length
        self.grid = grid
        self.cameras = cameras
        self.image_size = image_size

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        occupied = (rng.random(self.grid) < 0.3).astype(np.int)
        images = rng.normal(size=(self.cameras, 3, *self.image_size))
        images += occupied.mean()
        angles = np.arange(self.cameras) * np.pi / self.cameras
        cosine, sine, zero, one = np.cos(angles), np.sin(angles), np.zeros_like(angles), np.ones_like(angles)
        # from the ground (x, y, 1), both from -0.5 to 0.5, to the image (u, v, 1), both from 0 to 1
        rows = ((cosine, -sine, one / 2), (sine, cosine, one / 2), (zero, zero, one))
        projection = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
        return {"images": to_tensor(images), "projection": to_tensor(projection), "occupied": to_tensor(occupied)}
