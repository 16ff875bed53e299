"""Scenes drawn from a seed: objects on the ground, and what four cameras see of them."""

import math

import torch
from torch.utils.data import Dataset

CAMERAS = 4
HEIGHT, WIDTH = 32, 64  # pixels
FOCAL = 32.0  # pixels
CELLS = 16  # on a side of the grid
CELL = 2.0  # metres


def make_intrinsics():
    """Return the intrinsics of the cameras, (cameras, 3, 3)."""
    matrix = torch.tensor([[FOCAL, 0.0, WIDTH / 2], [0.0, FOCAL, HEIGHT / 2], [0.0, 0.0, 1.0]])
    return matrix.repeat(CAMERAS, 1, 1)


def make_poses():
    """Return the transformations of the cameras' frames (right, down, forward) to the car's, (cameras, 4, 4)."""
    poses = torch.eye(4).repeat(CAMERAS, 1, 1)
    for camera, pose in enumerate(poses):
        angle = 2 * math.pi * camera / CAMERAS
        pose[:3, 0] = torch.tensor([math.sin(angle), -math.cos(angle), 0.0])
        pose[:3, 1] = torch.tensor([0.0, 0.0, -1.0])
        pose[:3, 2] = torch.tensor([math.cos(angle), math.sin(angle), 0.0])
        pose[2, 3] = 1.5
    return poses


class Scenes(Dataset):
    """Images, (cameras, 3, HEIGHT, WIDTH), and which cells of the grid are occupied, (CELLS, CELLS).

    Args:
        length: number of scenes.
        objects: number of objects in each of them.
    """

    def __init__(self, length, objects=6):
        self.length = length
        self.objects = objects
        self.intrinsics = make_intrinsics()
        self.poses = make_poses()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(index)
        cells = torch.randint(CELLS, (self.objects, 2), generator=generator)
        occupied = torch.zeros(CELLS, CELLS)
        occupied[cells[:, 0], cells[:, 1]] = 1.0
        images = 0.1 * torch.randn(CAMERAS, 3, HEIGHT, WIDTH, generator=generator)
        for camera, (matrix, pose) in enumerate(zip(self.intrinsics, self.poses)):
            for cell in cells.tolist():
                place = torch.tensor([(i + 0.5 - CELLS / 2) * CELL for i in cell] + [0.0])
                x, y, depth = (matrix @ (pose[:3, :3].T @ (place - pose[:3, 3]))).tolist()
                if depth > 1 and 0 <= x / depth < WIDTH and 0 <= y / depth < HEIGHT:
                    row, column = int(y / depth), int(x / depth)
                    images[camera, :, row - 1 : row + 2, column - 1 : column + 2] += 1.0 + 4.0 / depth
        return {"images": images, "occupied": occupied}
