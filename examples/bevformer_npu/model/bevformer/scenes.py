"""Scenes made from a seed: coloured boxes on a plane, seen by four cameras of a vehicle in two frames."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

CLASSES = {"car": (1.0, 0.9, (0.9, 0.2, 0.2)), "pedestrian": (0.4, 1.8, (0.2, 0.8, 0.3))}
"""Half the width and the height in metres, and the colour."""

FIELDS_OF_VIEW = (90, 100, 120, 100)
"""Of the cameras, which look forward, left, back and right, in degrees: each sees another number of cells."""

CAMERA_HEIGHT = 1.5


class Scenes(Dataset):
    """Two frames of each scene, and the objects of the second, as a map.

    Args:
        number: of scenes.
        grid: rows and columns of the map.
        reach: the map spans from ``-reach`` to ``reach`` metres in x (forward) and y (left).
        size: height and width of the images in pixels.
        seed: of the random generator.
    """

    def __init__(
        self, number: int, grid: tuple[int, int], reach: float, size: tuple[int, int] = (64, 96), seed: int = 0
    ) -> None:
        self.grid, self.reach, self.size = grid, reach, size
        self._scenes = [self._make(np.random.RandomState(seed + scene)) for scene in range(number)]

    def __len__(self) -> int:
        return len(self._scenes)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """Return the tensors that :class:`bevformer.detector.BEVFormer` takes, without the batch axis."""
        return self._scenes[index]

    def _make(self, random: np.random.RandomState) -> dict[str, Tensor]:
        motion = random.uniform(-1.5, 1.5, 2)
        classes = random.randint(0, len(CLASSES), 4)
        angles = random.uniform(-math.pi, math.pi, 4)
        distances = random.uniform(3, 0.9 * self.reach, 4)
        places = np.stack([np.cos(angles), np.sin(angles)], -1) * distances[:, None]
        projections = np.stack([self._projection(camera) for camera in range(len(FIELDS_OF_VIEW))])
        frames = [
            np.stack([self._image(projection, classes, seen) for projection in projections])
            for seen in (places + motion, places)
        ]
        objects, offsets = self._map(classes, places)
        return {
            "images": torch.from_numpy(np.stack(frames)).float(),
            "projections": torch.from_numpy(np.stack([projections, projections])).float(),
            "motion": torch.from_numpy(motion).float(),
            "objects": objects,
            "offsets": offsets,
        }

    def _projection(self, camera: int) -> np.ndarray:
        """Return the matrix from (x, y, z, 1) in metres to (u * depth, v * depth, depth, 1) in pixels."""
        height, width = self.size
        yaw = 2 * math.pi * camera / len(FIELDS_OF_VIEW)
        focal = width / 2 / math.tan(math.radians(FIELDS_OF_VIEW[camera]) / 2)
        intrinsics = np.array([[focal, 0, width / 2, 0], [0, focal, height / 2, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        forward, right = (math.cos(yaw), math.sin(yaw), 0), (math.sin(yaw), -math.cos(yaw), 0)
        extrinsics = np.eye(4)
        extrinsics[:3, :3] = [right, (0, 0, -1), forward]
        extrinsics[:3, 3] = extrinsics[:3, :3] @ (0, 0, -CAMERA_HEIGHT)
        return intrinsics @ extrinsics

    def _image(self, projection: np.ndarray, classes: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return what a camera sees, (3, height, width): near objects in front of far ones."""
        height, width = self.size
        image = np.full((3, height, width), 0.4)
        for index in np.argsort(-np.linalg.norm(places, axis=1)):
            half, tall, colour = list(CLASSES.values())[classes[index]]
            bottom, top = (projection @ (*places[index], z, 1) for z in (0, tall))
            depth = bottom[2]
            if depth < 0.5:
                continue
            half_pixels = half * projection[:2, :2].ravel()[np.abs(projection[:2, :2]).argmax()] / depth
            left, right = sorted((bottom[0] / depth - half_pixels, bottom[0] / depth + half_pixels))
            rows = slice(max(0, round(top[1] / depth)), max(0, round(bottom[1] / depth)))
            image[:, rows, max(0, round(left)) : max(0, round(right))] = np.reshape(colour, (3, 1, 1))
        return image - 0.4

    def _map(self, classes: np.ndarray, places: np.ndarray) -> tuple[Tensor, Tensor]:
        rows, columns = self.grid
        objects, offsets = torch.zeros(len(CLASSES), rows, columns), torch.zeros(2, rows, columns)
        cells = (places / self.reach + 1) / 2 * (columns, rows)
        for index, (x, y) in zip(classes, cells):
            row, column = int(y), int(x)
            objects[index, row, column] = 1
            offsets[:, row, column] = torch.tensor([x - column - 0.5, y - row - 0.5])
        return objects, offsets
