"""Cases for ``patchcore verify``: detections at random, converted as mmdet3d's evaluation does it.

A case takes tensors, which are on the device like the predictions of a model, and copies the boxes made of them to the
CPU before it converts them, as ``NuScenesMetric.process`` (mmdet3d 1.4.0) and ``bbox3d2result`` (1.0.0rc6) do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import patchcore as pc

#: As many as a detector for nuScenes keeps for one sample.
_MOST_BOXES = 500
_CLASSES = 10
_ATTRIBUTES = 9


def dataset_boxes(draw: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw LiDAR boxes for ``output_to_nusc_box`` of mmdet3d 1.0, with and without velocities."""
    with_velocity = draw.random() < 0.5
    return pc.Case(_convert_for_dataset, (*_predictions(draw, size, columns=9 if with_velocity else 7), with_velocity))


def lidar_boxes(draw: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw LiDAR boxes for ``output_to_nusc_box`` of mmdet3d 1.1 and later, with and without velocities."""
    return pc.Case(_convert_lidar_boxes, (*_predictions(draw, size, columns=draw.choice((7, 9))), None))


def camera_boxes(draw: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw camera boxes for ``output_to_nusc_box`` of mmdet3d 1.1 and later, with and without attributes."""
    boxes, scores, labels = _predictions(draw, size, columns=9)
    attributes = _integers(draw, len(boxes), _ATTRIBUTES) if draw.random() < 0.5 else None
    return pc.Case(_convert_camera_boxes, (boxes, scores, labels, attributes))


def _predictions(draw: random.Random, size: pc.Size, *, columns: int) -> tuple[Any, Any, Any]:
    """Return boxes (boxes, columns) in metres, radians and metres per second, scores and labels (boxes,)."""
    import torch

    count = size.draw(draw, small=(1, 50), typical=(200, _MOST_BOXES))
    generator = torch.Generator().manual_seed(draw.getrandbits(63))
    boxes = torch.randn(count, columns, generator=generator)
    boxes[:, :3] *= 50.0
    boxes[:, 3:6] = boxes[:, 3:6].abs() + 0.1
    boxes[:, 6] *= math.pi
    boxes[0, 6] = 0.0  # pyquaternion takes another way
    return boxes, torch.rand(count, generator=generator), _integers(draw, count, _CLASSES)


def _integers(draw: random.Random, count: int, below: int) -> Any:
    import torch

    return torch.tensor([draw.randrange(below) for _ in range(count)])


def _convert_for_dataset(boxes: Any, scores: Any, labels: Any, with_velocity: bool) -> list[dict[str, Any]]:
    from mmdet3d.core import LiDARInstance3DBoxes, bbox3d2result
    from mmdet3d.datasets import nuscenes_dataset

    detection = bbox3d2result(LiDARInstance3DBoxes(boxes, box_dim=boxes.shape[1]), scores, labels)
    return _attributes_of(nuscenes_dataset.output_to_nusc_box(detection, with_velocity))


def _convert_lidar_boxes(*predictions: Any) -> tuple[list[dict[str, Any]], Any]:
    from mmdet3d.structures import LiDARInstance3DBoxes

    return _convert_for_metric(LiDARInstance3DBoxes, *predictions)


def _convert_camera_boxes(*predictions: Any) -> tuple[list[dict[str, Any]], Any]:
    from mmdet3d.structures import CameraInstance3DBoxes

    return _convert_for_metric(CameraInstance3DBoxes, *predictions)


def _convert_for_metric(
    box_type: type, boxes: Any, scores: Any, labels: Any, attributes: Any
) -> tuple[list[dict[str, Any]], Any]:
    from mmdet3d.evaluation.metrics import nuscenes_metric

    detection = {"bboxes_3d": box_type(boxes, box_dim=boxes.shape[1]), "scores_3d": scores, "labels_3d": labels}
    if attributes is not None:
        detection["attr_labels"] = attributes
    converted, of_boxes = nuscenes_metric.output_to_nusc_box({key: value.to("cpu") for key, value in detection.items()})
    return _attributes_of(converted), of_boxes


def _attributes_of(boxes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the values of each box, its quaternion as an array (4,) of w, x, y, z."""
    return [{**vars(box), "orientation": box.orientation.elements} for box in boxes]
