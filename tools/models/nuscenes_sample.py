"""A data set in the format of nuScenes, made at random and as small as a detector can be trained on.

Written are the point clouds and the information file that mmdet3d's converter would make of the tables of nuScenes
(``tools/create_data.py nuscenes``, mmdet3d 1.4.0); the tables themselves are read for scores only.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyquaternion import Quaternion

#: Lower, then upper end of x, y and z in metres.
POINT_CLOUD_RANGE = [-8.0, -8.0, -3.0, 8.0, 8.0, 1.0]
CLASSES = ("car", "pedestrian")
#: Their places among the classes of nuScenes, by which mmdet3d 1.1 and later know them in information files.
LABELS = {"car": 0, "pedestrian": 7}
#: Typical length, width and height, metres.
SIZES = {"car": (4.5, 1.9, 1.7), "pedestrian": (0.7, 0.7, 1.75)}

_LIDAR_TO_EGO = Quaternion(axis=[0, 0, 1], degrees=-90), np.array([0.9, 0.0, 1.8])
_EGO_TO_GLOBAL = Quaternion(axis=[0.01, 0.02, 1], degrees=30), np.array([400.0, 1100.0, 0.0])


@dataclass(frozen=True)
class Sample:
    """One sweep of the LiDAR with the objects in it.

    Args:
        token: its name in the tables.
        points: (points, 5) float32: x, y, z in metres, intensity, number of the beam.
        names: the class of each object.
        boxes: (objects, 7) float64: x, y, z of the centre, length, width, height, angle about z in radians.
        velocities: (objects, 2) float64, metres per second.
    """

    token: str
    points: np.ndarray
    names: tuple[str, ...]
    boxes: np.ndarray
    velocities: np.ndarray


def make_samples(count: int, *, objects: int = 3, seed: int = 0) -> list[Sample]:
    """Return samples with points on the ground and inside of each object.

    Args:
        count: how many samples.
        objects: in each of them, of the classes in turn.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    samples = []
    for number in range(count):
        names = tuple(CLASSES[index % len(CLASSES)] for index in range(objects))
        boxes = np.zeros((objects, 7))
        boxes[:, :2] = random.uniform(-6, 6, (objects, 2))
        boxes[:, 3:6] = [SIZES[name] for name in names]
        boxes[:, 2] = POINT_CLOUD_RANGE[2] + 0.5 + boxes[:, 5] / 2
        boxes[:, 6] = random.uniform(-math.pi, math.pi, objects)
        clouds = [_ground(random, 150), *(_inside(random, box, 40) for box in boxes)]
        velocities = random.uniform(-2, 2, (objects, 2))
        samples.append(Sample(f"sample-{number}", np.concatenate(clouds), names, boxes, velocities))
    return samples


def _ground(random: np.random.Generator, count: int) -> np.ndarray:
    points = random.uniform(-8, 8, (count, 5)).astype(np.float32)
    points[:, 2] = POINT_CLOUD_RANGE[2] + 0.5
    points[:, 3:] = random.uniform(0, 1, (count, 2))
    return points


def _inside(random: np.random.Generator, box: np.ndarray, count: int) -> np.ndarray:
    points = random.uniform(-0.5, 0.5, (count, 5))
    points[:, :3] *= box[3:6]
    cosine, sine = math.cos(box[6]), math.sin(box[6])
    points[:, :2] = points[:, :2] @ np.array([[cosine, sine], [-sine, cosine]])
    points[:, :3] += box[:3]
    return points.astype(np.float32)


def write_points(folder: Path, samples: Sequence[Sample]) -> None:
    """Write the point cloud of each sample to ``samples/LIDAR_TOP`` in ``folder``."""
    directory = folder / "samples" / "LIDAR_TOP"
    directory.mkdir(parents=True, exist_ok=True)
    for sample in samples:
        sample.points.tofile(directory / f"{sample.token}.bin")


def write_data(folder: Path, samples: Sequence[Sample]) -> Path:
    """Write the data set for mmdet3d 1.1 and later; return its information file."""
    write_points(folder, samples)
    frames = [
        {
            "sample_idx": index,
            "token": sample.token,
            "timestamp": float(index),
            "ego2global": _matrix(*_EGO_TO_GLOBAL).tolist(),
            "images": {},
            "lidar_points": {
                "num_pts_feats": 5,
                "lidar_path": f"{sample.token}.bin",
                "lidar2ego": _matrix(*_LIDAR_TO_EGO).tolist(),
            },
            "instances": [
                {
                    "bbox_label": LABELS[name],
                    "bbox_label_3d": LABELS[name],
                    "bbox_3d": box.tolist(),
                    "bbox_3d_isvalid": True,
                    "velocity": velocity.tolist(),
                    "num_lidar_pts": 40,
                    "num_radar_pts": 0,
                }
                for name, box, velocity in zip(sample.names, sample.boxes, sample.velocities)
            ],
        }
        for index, sample in enumerate(samples)
    ]
    metainfo = {"categories": LABELS, "dataset": "nuscenes", "version": "v1.0-mini", "info_version": "1.1"}
    return _write(folder, {"metainfo": metainfo, "data_list": frames})


def _matrix(rotation: Quaternion, translation: np.ndarray) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation.rotation_matrix, translation
    return matrix


def _write(folder: Path, content: Any) -> Path:
    path = folder / "infos.pkl"
    path.write_bytes(pickle.dumps(content))
    return path
