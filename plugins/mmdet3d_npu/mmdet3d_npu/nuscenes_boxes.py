"""Predicted boxes as nuScenes boxes, with the quaternions of a whole sample computed at once.

mmdet3d builds one ``pyquaternion.Quaternion`` per box from axis and angle (two and their product for camera boxes) and
hands the velocities to nuScenes one 0-dimensional tensor at a time. That is two thirds to three quarters of the time
of a conversion; the rest is the constructor of ``nuscenes.utils.data_classes.Box``, which still runs for each box.

Sources: mmdet3d 1.0.0rc6 ``datasets/nuscenes_dataset.py`` and 1.4.0 ``evaluation/metrics/nuscenes_metric.py`` for the
conversion, pyquaternion 0.9.9 for its arithmetic, nuscenes-devkit 1.2.0 for the boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import patchcore as pc

#: The columns of a box's tensor with the velocity, in the plane of its coordinate system.
_VELOCITY = slice(7, 9)


def dataset_boxes_fit(detection: dict[str, Any], with_velocity: bool = True) -> bool:
    """Return whether :func:`dataset_boxes` computes the same as mmdet3d 1.0 for these arguments.

    Args:
        detection: see :func:`dataset_boxes`.
        with_velocity: likewise.
    """
    return _are_complete(detection["boxes_3d"], detection)


def dataset_boxes(detection: dict[str, Any], with_velocity: bool = True) -> list[Any]:
    """Replace ``output_to_nusc_box`` of mmdet3d 1.0: convert the boxes of one sample.

    Args:
        detection: ``boxes_3d`` (boxes in LiDAR coordinates, metres and radians), ``scores_3d`` (boxes,) and
            ``labels_3d`` (boxes,), in the memory of the CPU.
        with_velocity: whether the boxes have a velocity (metres per second); else it is zero, and of integers.

    Returns:
        A ``nuscenes.utils.data_classes.Box`` for each box.
    """
    import numpy as np
    from mmdet3d.datasets import nuscenes_dataset

    boxes = detection["boxes_3d"]
    scores, labels = detection["scores_3d"].numpy(), detection["labels_3d"].numpy()
    velocities = _lidar_velocities(boxes) if with_velocity else itertools.repeat(np.array((0, 0, 0)))
    return _lidar_boxes(nuscenes_dataset.NuScenesBox, boxes, labels, scores, velocities)


def metric_boxes_fit(detection: dict[str, Any]) -> bool:
    """Return whether :func:`metric_boxes` computes the same as mmdet3d 1.1 and later for ``detection``.

    Boxes of other types, and camera boxes without a velocity, are for the original to refuse.
    """
    from mmdet3d.evaluation.metrics import nuscenes_metric

    boxes = detection["bboxes_3d"]
    if isinstance(boxes, nuscenes_metric.CameraInstance3DBoxes):
        return boxes.tensor.shape[1] >= _VELOCITY.stop and _are_complete(boxes, detection)
    return isinstance(boxes, nuscenes_metric.LiDARInstance3DBoxes) and _are_complete(boxes, detection)


def metric_boxes(detection: dict[str, Any]) -> tuple[list[Any], Optional[Any]]:
    """Replace ``output_to_nusc_box`` of mmdet3d 1.1 and later: convert the boxes of one sample.

    Args:
        detection: ``bboxes_3d`` (boxes in LiDAR or camera coordinates, metres and radians, with velocities in metres
            per second), ``scores_3d`` (boxes,), ``labels_3d`` (boxes,) and, where attributes were predicted,
            ``attr_labels`` (boxes,), in the memory of the CPU.

    Returns:
        A ``nuscenes.utils.data_classes.Box`` for each box, and the attributes as an array that shares their memory, or
        ``None``.
    """
    from mmdet3d.evaluation.metrics import nuscenes_metric

    boxes = detection["bboxes_3d"]
    scores, labels = detection["scores_3d"].numpy(), detection["labels_3d"].numpy()
    attributes = detection["attr_labels"].numpy() if "attr_labels" in detection else None
    box_class = nuscenes_metric.NuScenesBox
    if isinstance(boxes, nuscenes_metric.LiDARInstance3DBoxes):
        return _lidar_boxes(box_class, boxes, labels, scores, _lidar_velocities(boxes)), attributes
    return _camera_boxes(box_class, boxes, labels, scores), attributes


def _are_complete(boxes: Any, detection: dict[str, Any]) -> bool:
    """Return whether each box has a label and a score; mmdet3d fails at the first that has not."""
    given = (detection["scores_3d"], detection["labels_3d"])
    return all(values.dim() > 0 and len(values) >= len(boxes) for values in given)


def _lidar_boxes(box_class: Any, boxes: Any, labels: Any, scores: Any, velocities: Iterable[Any]) -> list[Any]:
    """Convert boxes in LiDAR coordinates: turned about the vertical axis z."""
    import numpy as np

    cosine, sine = _half_angles(boxes.yaw)
    # pyquaternion multiplies the axis (0, 0, 1) by the sine, and so keeps its sign in the zeros
    quaternions = np.stack((cosine, 0.0 * sine, 0.0 * sine, sine), axis=1)
    sizes = boxes.dims.numpy()[:, [1, 0, 2]]
    return _build(box_class, boxes.gravity_center.numpy(), sizes, quaternions, labels, scores, velocities)


def _camera_boxes(box_class: Any, boxes: Any, labels: Any, scores: Any) -> list[Any]:
    """Convert boxes in camera coordinates: turned about their own vertical axis -y, then a quarter turn about x."""
    import numpy as np

    cosine, sine = _half_angles(-boxes.yaw)
    quarter_cosine, quarter_sine = math.cos(math.pi / 4), math.sin(math.pi / 4)
    # The product of (quarter_cosine, quarter_sine, 0, 0) and (cosine, 0, 0, sine). Each element is a single product
    # plus zeros, so that it is rounded once, in whatever order they are added; that addition makes -0 a zero.
    elements = (quarter_cosine * cosine, quarter_sine * cosine, -quarter_sine * sine, quarter_cosine * sine)
    quaternions = np.stack(elements, axis=1) + 0.0
    sizes = boxes.dims.numpy()[:, [2, 0, 1]]
    velocities = np.zeros((len(boxes), 3))
    velocities[:, ::2] = boxes.tensor[:, _VELOCITY].numpy()
    return _build(box_class, boxes.gravity_center.numpy(), sizes, quaternions, labels, scores, velocities)


def _half_angles(yaw: Any) -> tuple[Any, Any]:
    """Return cosine and sine of half of each angle, float64, (boxes,) both.

    pyquaternion divides one scalar at a time: numpy 2 halves a float32 in float32, numpy 1 in float64.

    Args:
        yaw: angles in radians, a tensor (boxes,).
    """
    import numpy as np

    angles = yaw.numpy()
    halved = (angles.dtype.type(1) / 2.0).dtype
    # pyquaternion takes an angle of -0 for none at all
    halves = ((angles.astype(halved) + 0.0) / 2.0).tolist()
    # by the functions that pyquaternion calls: numpy's own may differ in the last bit
    return np.array([math.cos(half) for half in halves]), np.array([math.sin(half) for half in halves])


def _lidar_velocities(boxes: Any) -> Any:
    """Return the velocities (boxes, 3), float64; (boxes, 1) where boxes have none and mmdet3d adds the last alone."""
    import numpy as np

    planar = boxes.tensor[:, _VELOCITY].numpy()
    return np.concatenate((planar.astype(np.float64), np.zeros((len(planar), 1))), axis=1)


def _build(
    box_class: Any, centers: Any, sizes: Any, elements: Any, labels: Any, scores: Any, velocities: Iterable[Any]
) -> list[Any]:
    """Build a box from each row; the constructor copies the rows, so that no two boxes share memory."""
    rows = zip(centers, sizes, _quaternions(elements), labels, scores, velocities)
    return [
        box_class(center, size, quaternion, label=label, score=score, velocity=velocity)
        for center, size, quaternion, label, score, velocity in rows
    ]


def _quaternions(elements: Any) -> Iterator[Any]:
    """Yield a quaternion for each row of w, x, y, z (boxes, 4), with a copy of it as its own memory."""
    from pyquaternion import Quaternion

    blank = Quaternion()
    for row in elements:
        # the constructor turns four numbers into floats one by one; from a quaternion it takes the array as it is
        quaternion = Quaternion(blank)
        quaternion.q = row.copy()
        yield quaternion


NUSCENES_DATASET = pc.Patch(
    "mmdet3d.nuscenes_dataset",
    [
        pc.Replace(
            "mmdet3d.datasets.nuscenes_dataset:output_to_nusc_box",
            dataset_boxes,
            when_call=dataset_boxes_fit,
        )
    ],
    summary="predicted boxes to nuScenes boxes, all quaternions at once",
    requires="mmdet3d>=1.0.0rc6,<1.1",
    needs=["nuscenes", "pyquaternion"],
    legacy_names=["nuscenes_dataset", "NuScenesDataset", "NuScenes"],
    checks=pc.Check("mmdet3d_npu.checks:dataset_boxes", dtypes={"float32": 0.0}),
)

NUSCENES_METRIC = pc.Patch(
    "mmdet3d.nuscenes_metric",
    [
        # the package mmdet3d.evaluation.metrics does not export the function
        pc.Replace(
            "mmdet3d.evaluation.metrics.nuscenes_metric:output_to_nusc_box",
            metric_boxes,
            when_call=metric_boxes_fit,
        )
    ],
    summary="predicted boxes to nuScenes boxes, all quaternions at once",
    requires="mmdet3d>=1.1,<2",
    needs=["nuscenes", "pyquaternion"],
    legacy_names=["nuscenes_metric", "NuScenesMetric", "NuScenes"],
    checks=[
        pc.Check("mmdet3d_npu.checks:lidar_boxes", dtypes={"float32": 0.0}),
        pc.Check("mmdet3d_npu.checks:camera_boxes", dtypes={"float32": 0.0}),
    ],
)
