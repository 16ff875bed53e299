"""Point clouds and images with boxes in space, in the formats of KITTI and nuScenes; and the configurations for them.

mmdet3d 1.1 and later read both from information files of one format. Ranges are shrunk to a part of a scene: what is
computed over the ground depends on their area.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

SAMPLES = 6
KITTI, NUSCENES = "kitti", "nuscenes"
INFOS = "infos.pkl"
#: Height and width of images: a quarter of those of KITTI.
SIZE = (96, 320)
#: Voxels along x and y, of pillars and of smaller voxels.
PILLARS, VOXELS = 128, 256
_CLASSES = ("Pedestrian", "Cyclist", "Car")
#: Length, height and width in metres.
_SIZES = {"Pedestrian": (0.8, 1.7, 0.6), "Cyclist": (1.8, 1.7, 0.6), "Car": (3.9, 1.6, 1.6)}
_FOCAL = 180.0
#: Places among the classes of nuScenes, by which mmdet3d knows them in information files; length, width and height.
_NUSCENES_LABELS = {"car": 0, "pedestrian": 7}
_NUSCENES_SIZES = {"car": (4.5, 1.9, 1.7), "pedestrian": (0.7, 0.7, 1.75)}
#: Options that are lists of coordinates: x, y and z of the lower, then of the upper end.
_RANGES = frozenset(
    ["point_cloud_range", "pc_range", "post_center_limit_range", "post_center_range", "pcd_limit_range"]
)

Config = dict[str, Any]


def make_kitti(folder: Path, seed: int = 0) -> None:
    """Write images, point clouds and boxes before the camera, which looks along x from the place of the LiDAR."""
    import cv2
    import numpy as np

    root = folder / KITTI
    for name in ("images", "points"):
        (root / name).mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    to_camera = np.array([[0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]], np.float64)
    intrinsics = np.array([[_FOCAL, 0, SIZE[1] / 2, 0], [0, _FOCAL, SIZE[0] / 2, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    frames = []
    for number in range(SAMPLES):
        ground = random.uniform((0, -10, -1.75, 0), (20, 10, -1.65, 1), (400, 4))
        clouds, instances = [ground], []
        for index, name in enumerate(_CLASSES * 2):
            length, height, width = _SIZES[name]
            # x of the camera is to the right, y is down to the bottom of the box, z is forward
            place = np.array([random.uniform(-4, 4), 1.7, random.uniform(6, 11)])
            yaw = random.uniform(-math.pi, math.pi)
            inside = random.uniform(-0.5, 0.5, (60, 4)) * (length, width, height, 1)
            cosine, sine = math.cos(-yaw - math.pi / 2), math.sin(-yaw - math.pi / 2)
            inside[:, :2] = inside[:, :2] @ np.array([[cosine, sine], [-sine, cosine]])
            centre = np.array([place[2], -place[0], -place[1] + height / 2])
            clouds.append(inside + [*centre, 0.5])
            middle = intrinsics[:3, :3] @ (place - [0, height / 2, 0])
            u, v = middle[:2] / middle[2]
            half_width, half_height = _FOCAL * width / place[2], _FOCAL * height / 2 / place[2]
            instances.append(
                {
                    "bbox": [
                        max(u - half_width, 0.0),
                        max(v - half_height, 0.0),
                        min(u + half_width, SIZE[1] - 1.0),
                        min(v + half_height, SIZE[0] - 1.0),
                    ],
                    "bbox_label": _CLASSES.index(name),
                    "bbox_3d": [*place.tolist(), length, height, width, yaw],
                    "bbox_label_3d": _CLASSES.index(name),
                    "depth": place[2],
                    "center_2d": [u, v],
                    "num_lidar_pts": 60,
                    "difficulty": 0,
                    "truncated": 0.0,
                    "occluded": 0,
                    "alpha": 0.0,
                    "score": 0.0,
                    "index": index,
                    "group_id": index,
                }
            )
        np.concatenate(clouds).astype(np.float32).tofile(root / "points" / f"{number:06d}.bin")
        image = random.integers(0, 255, (SIZE[0] // 8, SIZE[1] // 8, 3), np.uint8)
        cv2.imwrite(str(root / "images" / f"{number:06d}.png"), cv2.resize(image, SIZE[::-1]))
        camera = {
            "img_path": f"{number:06d}.png",
            "height": SIZE[0],
            "width": SIZE[1],
            "cam2img": intrinsics.tolist(),
            "lidar2cam": to_camera.tolist(),
            "lidar2img": (intrinsics @ to_camera).tolist(),
        }
        frames.append(
            {
                "sample_idx": number,
                "images": {"CAM2": camera, "R0_rect": np.eye(4).tolist()},
                "lidar_points": {"num_pts_feats": 4, "lidar_path": f"{number:06d}.bin"},
                "instances": instances,
                "cam_instances": {"CAM2": instances},
            }
        )
    categories = {name: number for number, name in enumerate(_CLASSES)}
    content = {"metainfo": {"categories": categories, "dataset": "kitti", "info_version": "1.1"}, "data_list": frames}
    (root / INFOS).write_bytes(pickle.dumps(content))


def make_nuscenes(folder: Path, seed: int = 0) -> None:
    """Write point clouds with points on the ground and inside of cars and pedestrians, and their information file.

    It is as mmdet3d's converter would make it of the tables of nuScenes, which are read for scores only.
    """
    import numpy as np
    from pyquaternion import Quaternion

    def matrix(rotation: Any, *translation: float) -> Any:
        made = np.eye(4)
        made[:3, :3], made[:3, 3] = rotation.rotation_matrix, translation
        return made.tolist()

    points_folder = folder / NUSCENES / "samples" / "LIDAR_TOP"
    points_folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    names = ("car", "pedestrian", "car")
    ground = -2.5
    frames = []
    for number in range(SAMPLES):
        boxes = np.zeros((len(names), 7))  # x, y, z of the centre, length, width, height, angle about z
        boxes[:, :2] = random.uniform(-6, 6, (len(names), 2))
        boxes[:, 3:6] = [_NUSCENES_SIZES[name] for name in names]
        boxes[:, 2] = ground + boxes[:, 5] / 2
        boxes[:, 6] = random.uniform(-math.pi, math.pi, len(names))
        plain = random.uniform(-8, 8, (150, 5)).astype(np.float32)
        plain[:, 2] = ground
        plain[:, 3:] = random.uniform(0, 1, (150, 2))
        clouds = [plain]
        for box in boxes:
            inside = random.uniform(-0.5, 0.5, (40, 5))
            inside[:, :3] *= box[3:6]
            cosine, sine = math.cos(box[6]), math.sin(box[6])
            inside[:, :2] = inside[:, :2] @ np.array([[cosine, sine], [-sine, cosine]])
            inside[:, :3] += box[:3]
            clouds.append(inside.astype(np.float32))
        velocities = random.uniform(-2, 2, (len(names), 2))
        token = f"sample-{number}"
        np.concatenate(clouds).tofile(points_folder / f"{token}.bin")
        frames.append(
            {
                "sample_idx": number,
                "token": token,
                "timestamp": float(number),
                "ego2global": matrix(Quaternion(axis=[0.01, 0.02, 1], degrees=30), 400.0, 1100.0, 0.0),
                "images": {},
                "lidar_points": {
                    "num_pts_feats": 5,
                    "lidar_path": f"{token}.bin",
                    "lidar2ego": matrix(Quaternion(axis=[0, 0, 1], degrees=-90), 0.9, 0.0, 1.8),
                },
                "instances": [
                    {
                        "bbox_label": _NUSCENES_LABELS[name],
                        "bbox_label_3d": _NUSCENES_LABELS[name],
                        "bbox_3d": box.tolist(),
                        "bbox_3d_isvalid": True,
                        "velocity": velocity.tolist(),
                        "num_lidar_pts": 40,
                        "num_radar_pts": 0,
                    }
                    for name, box, velocity in zip(names, boxes, velocities)
                ],
            }
        )
    metainfo = {"categories": _NUSCENES_LABELS, "dataset": "nuscenes", "version": "v1.0-mini", "info_version": "1.1"}
    content = {"metainfo": metainfo, "data_list": frames}
    (folder / NUSCENES / INFOS).write_bytes(pickle.dumps(content))


def shrink(config: Config, folder: Path) -> None:
    """Make a configuration of mmdet3d 1.1 or later small."""
    loader = config["train_dataloader"]
    while loader["dataset"]["type"] in ("CBGSDataset", "RepeatDataset"):
        loader["dataset"] = loader["dataset"]["dataset"]
    dataset = loader["dataset"]
    kitti = dataset["type"] == "KittiDataset"
    dataset["data_root"] = ""
    dataset["ann_file"] = str(folder / (KITTI if kitti else NUSCENES) / INFOS)
    points = folder / (f"{KITTI}/points" if kitti else f"{NUSCENES}/samples/LIDAR_TOP")
    dataset["data_prefix"] = {"pts": str(points), "img": str(folder / KITTI / "images"), "sweeps": ""}
    dataset["pipeline"] = [step for step in dataset["pipeline"] if step["type"] != "ObjectSample"]
    _shrink_range(config)


def _shrink_range(config: Config) -> None:
    """Let the grid have :data:`PILLARS` or :data:`VOXELS` cells along x and y, of the same size as before."""
    model, pipeline = config["model"], config["train_dataloader"]["dataset"]["pipeline"]
    layers = [node for node in _nodes(model) if "voxel_size" in node and "point_cloud_range" in node]
    if layers:
        size, limits = layers[0]["voxel_size"], layers[0]["point_cloud_range"]
        cells = [(limits[3 + axis] - limits[axis]) / size[axis] for axis in (0, 1)]
        most = VOXELS if size[0] < 0.15 else PILLARS
    elif "n_voxels" in model:
        cells, most = model["n_voxels"][:2], PILLARS // 4
        model["n_voxels"] = [most, most, *model["n_voxels"][2:]]
    else:
        return
    factors = [most / cells[axis] for axis in (0, 1)]

    def scaled(values: Any) -> Any:
        if not isinstance(values, (list, tuple)):
            return values
        if isinstance(values[0], (list, tuple)):
            return [scaled(each) for each in values]
        return [
            value * factors[index % 3] if len(values) == 2 or index % 3 < 2 else value
            for index, value in enumerate(values)
        ]

    for node in (*_nodes(model), *_nodes(pipeline)):
        for key in _RANGES & node.keys():
            if node[key] is not None and len(node[key]) in (2, 6):
                node[key] = scaled(node[key])
        if "ranges" in node:
            node["ranges"] = scaled(node["ranges"])
        if "output_shape" in node:
            node["output_shape"] = [most, most]
        if isinstance(node.get("grid_size"), (list, tuple)):  # PV-RCNN has a number of that name
            node["grid_size"] = [most, most, *node["grid_size"][2:]]
        if "sparse_shape" in node:
            node["sparse_shape"] = [*node["sparse_shape"][:1], most, most]


def _nodes(value: Any) -> Any:
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from _nodes(child)
