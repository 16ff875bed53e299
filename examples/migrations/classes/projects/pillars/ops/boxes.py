"""Which points are in which boxes, by our CUDA extension."""

import roi_points_cuda


def points_in_boxes(points, boxes):
    """Return 1 or 0 for each point and box, shape (n, points, boxes).

    Args:
        points: shape (n, points, 3).
        boxes: x, y, z of the bottom, their sizes, angle; shape (n, boxes, 7).
    """
    return roi_points_cuda.points_in_boxes(points.contiguous(), boxes.contiguous())
