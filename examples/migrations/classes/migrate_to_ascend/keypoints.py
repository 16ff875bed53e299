"""What keypoint_ext has, on an NPU."""

import mx_driving


def sample(points, count):
    """Return the numbers of ``count`` points far from each other, shape (n, count)."""
    return mx_driving.furthest_point_sampling(points, count)
