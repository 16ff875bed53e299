"""Operators on points: mmcv's definitions, ``mmcv/ops/csrc/common/cuda/*_cuda_kernel.cuh`` (2.2.0)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "ball_query_forward",
    "chamfer_distance_backward",
    "chamfer_distance_forward",
    "gather_points_backward",
    "gather_points_forward",
    "group_points_forward",
    "stack_ball_query_forward",
    "stack_group_points_forward",
    "three_interpolate_backward",
    "three_interpolate_forward",
]


def gather_points_forward(
    points_tensor: Tensor, idx_tensor: Tensor, out_tensor: Tensor, b: int, c: int, n: int, npoints: int
) -> None:
    """Write the features (b, c, n) of the points (b, npoints) to ``out_tensor``, (b, c, npoints)."""
    index = idx_tensor.long().unsqueeze(1).expand(b, c, npoints)
    out_tensor.copy_(points_tensor.gather(2, index))


def gather_points_backward(
    grad_out_tensor: Tensor, idx_tensor: Tensor, grad_points_tensor: Tensor, b: int, c: int, n: int, npoints: int
) -> None:
    """Add the gradients (b, c, npoints) to those of the points they were taken from, (b, c, n)."""
    index = idx_tensor.long().unsqueeze(1).expand(b, c, npoints)
    grad_points_tensor.scatter_add_(2, index, grad_out_tensor)


def group_points_forward(
    points_tensor: Tensor, idx_tensor: Tensor, out_tensor: Tensor, b: int, c: int, n: int, npoints: int, nsample: int
) -> None:
    """Write the features (b, c, n) of the points (b, npoints, nsample) to ``out_tensor``, (b, c, npoints, nsample)."""
    index = idx_tensor.long().view(b, 1, npoints * nsample).expand(b, c, npoints * nsample)
    out_tensor.copy_(points_tensor.gather(2, index).view(b, c, npoints, nsample))


def ball_query_forward(
    new_xyz_tensor: Tensor,
    xyz_tensor: Tensor,
    idx_tensor: Tensor,
    b: int,
    n: int,
    m: int,
    min_radius: float,
    max_radius: float,
    nsample: int,
) -> None:
    """Write the first points within a shell around each centre to ``idx_tensor``, the first one where there are fewer.

    Args:
        new_xyz_tensor: (b, m, 3), the centres.
        xyz_tensor: (b, n, 3), the points.
        idx_tensor: (b, m, nsample); rows without a point stay as they are.
        b, n, m: images, points, centres.
        min_radius, max_radius: of the shell; a point at the centre itself is always in it.
        nsample: how many points.
    """
    for number in range(b):
        squared = _squared_distances(new_xyz_tensor[number], xyz_tensor[number])
        near = (squared == 0) | ((squared >= min_radius**2) & (squared < max_radius**2))
        found, has_any = _first_of_each_row(near, nsample)
        idx_tensor[number][has_any] = found[has_any].to(idx_tensor.dtype)


def stack_ball_query_forward(
    new_xyz_tensor: Tensor,
    new_xyz_batch_cnt: Tensor,
    xyz_tensor: Tensor,
    xyz_batch_cnt: Tensor,
    idx_tensor: Tensor,
    max_radius: float,
    nsample: int,
) -> None:
    """Make a ball query for images with different numbers of points, whose points follow each other.

    Args:
        new_xyz_tensor: (centres of all images, 3).
        new_xyz_batch_cnt: how many centres each image has.
        xyz_tensor: (points of all images, 3).
        xyz_batch_cnt: how many points each image has.
        idx_tensor: (centres, nsample), counted within the image; a row without a point begins with -1.
        max_radius: of the ball.
        nsample: how many points.
    """
    centres = new_xyz_tensor.split(new_xyz_batch_cnt.tolist())
    points = xyz_tensor.split(xyz_batch_cnt.tolist())
    for some, centre, image in zip(idx_tensor.split(new_xyz_batch_cnt.tolist()), centres, points):
        found, has_any = _first_of_each_row(_squared_distances(centre, image) < max_radius**2, nsample)
        some[has_any] = found[has_any].to(some.dtype)
        some[~has_any, 0] = -1


def stack_group_points_forward(
    features_tensor: Tensor,
    features_batch_cnt_tensor: Tensor,
    idx_tensor: Tensor,
    idx_batch_cnt_tensor: Tensor,
    out_tensor: Tensor,
    b: int,
    c: int,
    m: int,
    nsample: int,
) -> None:
    """Write the features of groups of points to ``out_tensor``, for images whose points follow each other.

    Args:
        features_tensor: (points of all images, c).
        features_batch_cnt_tensor: how many points each image has.
        idx_tensor: (m, nsample), counted within the image.
        idx_batch_cnt_tensor: how many groups each image has.
        out_tensor: (m, c, nsample).
        b, c, m, nsample: images, channels, groups, points of a group.
    """
    counts = features_batch_cnt_tensor.long()
    starts = counts.cumsum(0) - counts
    index = idx_tensor.long() + starts.repeat_interleave(idx_batch_cnt_tensor.long()).unsqueeze(1)
    out_tensor.copy_(features_tensor[index].transpose(1, 2))


def three_interpolate_forward(
    points_tensor: Tensor, idx_tensor: Tensor, weight_tensor: Tensor, out_tensor: Tensor, b: int, c: int, m: int, n: int
) -> None:
    """Write the weighted sum of the features of three points each to ``out_tensor``.

    Args:
        points_tensor: (b, c, m), the features.
        idx_tensor, weight_tensor: (b, n, 3).
        out_tensor: (b, c, n).
        b, c, m, n: images, channels, points, results.
    """
    index = idx_tensor.long().view(b, 1, n * 3).expand(b, c, n * 3)
    found = points_tensor.gather(2, index).view(b, c, n, 3)
    out_tensor.copy_((found * weight_tensor.unsqueeze(1)).sum(dim=-1))


def three_interpolate_backward(
    grad_out_tensor: Tensor,
    idx_tensor: Tensor,
    weight_tensor: Tensor,
    grad_points_tensor: Tensor,
    b: int,
    c: int,
    n: int,
    m: int,
) -> None:
    """Add the gradients (b, c, n), weighted, to those of the three points each, (b, c, m)."""
    index = idx_tensor.long().view(b, 1, n * 3).expand(b, c, n * 3)
    share = grad_out_tensor.unsqueeze(-1) * weight_tensor.unsqueeze(1)
    grad_points_tensor.scatter_add_(2, index, share.flatten(2))


def chamfer_distance_forward(
    xyz1: Tensor, xyz2: Tensor, dist1: Tensor, dist2: Tensor, idx1: Tensor, idx2: Tensor
) -> None:
    """Write the squared distance of each point to the nearest of the other set, and its index.

    Args:
        xyz1, xyz2: (batch, points, 2).
        dist1, dist2: (batch, points).
        idx1, idx2: (batch, points).
    """
    squared = (xyz1.unsqueeze(2) - xyz2.unsqueeze(1)).square().sum(dim=-1)
    for dim, distances, index in ((2, dist1, idx1), (1, dist2, idx2)):
        nearest, where = squared.min(dim=dim)
        distances.copy_(nearest)
        index.copy_(where)


def chamfer_distance_backward(
    xyz1: Tensor,
    xyz2: Tensor,
    idx1: Tensor,
    idx2: Tensor,
    graddist1: Tensor,
    graddist2: Tensor,
    gradxyz1: Tensor,
    gradxyz2: Tensor,
) -> None:
    """Add to the gradients of both sets of points; see the forward pass."""
    for own, other, idx, gradient, grad_own, grad_other in (
        (xyz1, xyz2, idx1, graddist1, gradxyz1, gradxyz2),
        (xyz2, xyz1, idx2, graddist2, gradxyz2, gradxyz1),
    ):
        index = idx.long().unsqueeze(-1).expand(-1, -1, own.shape[-1])
        share = 2 * gradient.unsqueeze(-1) * (own - other.gather(1, index))
        grad_own.add_(share)
        grad_other.scatter_add_(1, index, -share)


def _squared_distances(centres: Tensor, points: Tensor) -> Tensor:
    return (centres.unsqueeze(1) - points.unsqueeze(0)).square().sum(dim=-1)


def _first_of_each_row(chosen: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the first ``count`` chosen columns of each row, filled up with the first, and which rows have any."""
    columns = torch.arange(chosen.shape[1])
    places = torch.where(chosen, columns, chosen.shape[1])
    first = places.sort(dim=1).values[:, :count]
    if first.shape[1] < count:
        first = torch.nn.functional.pad(first, (0, count - first.shape[1]), value=chosen.shape[1])
    return torch.where(first < chosen.shape[1], first, first[:, :1]), chosen.any(dim=1)
