"""Overlap of boxes seen from above."""

from __future__ import annotations

import torch
from torch import Tensor

# Of the coordinates, in float64: a point this close to an edge is on it.
_ON_EDGE = 1e-9


def rotated_corners(center: Tensor, size: Tensor, angle: Tensor) -> Tensor:
    """Return the corners of rectangles, counterclockwise.

    Args:
        center: (x, y), shape (n, 2).
        size: along the rectangle's own axes, shape (n, 2).
        angle: by which it is rotated counterclockwise, in radians, shape (n,).

    Returns:
        Shape (n, 4, 2), float64.
    """
    signs = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=torch.float64, device=center.device)
    x, y = (size.double().unsqueeze(1) / 2 * signs).unbind(dim=-1)
    cosine, sine = angle.double().cos().unsqueeze(1), angle.double().sin().unsqueeze(1)
    rotated = torch.stack([x * cosine - y * sine, x * sine + y * cosine], dim=-1)
    return rotated + center.double().unsqueeze(1)


def overlap_area(corners_a: Tensor, corners_b: Tensor) -> Tensor:
    """Return the area that each rectangle of one set shares with each of another.

    The corners of the shared polygon are those of one rectangle that are in the other, and the points where edges
    cross; in the order of their direction from a point inside, they give its area (shoelace formula).

    Args:
        corners_a: of n rectangles, by :func:`rotated_corners`.
        corners_b: of m rectangles.

    Returns:
        Shape (n, m), float64.
    """
    a, b = torch.broadcast_tensors(corners_a.unsqueeze(1), corners_b.unsqueeze(0))
    crossings, crosses = _crossings(a, b)
    points = torch.cat([a, b, crossings], dim=2)
    valid = torch.cat([_inside(a, b), _inside(b, a), crosses], dim=2)

    count = valid.sum(dim=2).clamp(min=1)
    middle = (points * valid.unsqueeze(-1)).sum(dim=2) / count.unsqueeze(-1)
    spokes = points - middle.unsqueeze(2)
    angle = torch.atan2(spokes[..., 1], spokes[..., 0]).masked_fill(~valid, torch.inf)
    order = angle.argsort(dim=2)
    spokes = spokes.gather(2, order.unsqueeze(-1).expand_as(spokes))
    valid = valid.gather(2, order)
    # A point that is no corner becomes a repetition of the first one, which adds nothing to the area.
    spokes = torch.where(valid.unsqueeze(-1), spokes, spokes[:, :, :1])
    area = _cross(spokes, spokes.roll(-1, dims=2)).sum(dim=2) / 2
    return torch.where(valid.sum(dim=2) > 2, area, 0)


def _cross(first: Tensor, second: Tensor) -> Tensor:
    return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]


def _inside(points: Tensor, corners: Tensor) -> Tensor:
    """Return which of the points, (..., p, 2), are in the rectangle, (..., 4, 2) counterclockwise, or on its edge."""
    edges = corners.roll(-1, dims=-2) - corners
    to_points = points.unsqueeze(-2) - corners.unsqueeze(-3)
    return (_cross(edges.unsqueeze(-3), to_points) >= -_ON_EDGE).all(dim=-1)


def _crossings(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the edges of two rectangles cross, (..., 16, 2), and whether they do, (..., 16)."""
    start_a, start_b = a.unsqueeze(-2), b.unsqueeze(-3)
    edge_a, edge_b = a.roll(-1, dims=-2).unsqueeze(-2) - start_a, b.roll(-1, dims=-2).unsqueeze(-3) - start_b
    determinant = _cross(edge_a, edge_b)
    parallel = determinant.abs() <= _ON_EDGE
    divisor = torch.where(parallel, 1.0, determinant)
    along_a = _cross(start_b - start_a, edge_b) / divisor
    along_b = _cross(start_b - start_a, edge_a) / divisor
    crosses = ~parallel & (along_a >= 0) & (along_a <= 1) & (along_b >= 0) & (along_b <= 1)
    return (start_a + along_a.unsqueeze(-1) * edge_a).flatten(-3, -2), crosses.flatten(-2, -1)


def check_scored_boxes(kernel: str, boxes: Tensor, scores: Tensor) -> None:
    """Check that there are boxes of seven numbers, with a score each.

    Raises:
        ValueError: the tensors have other shapes.
    """
    if boxes.dim() != 2 or boxes.shape[1] != 7 or scores.shape != boxes.shape[:1]:
        raise ValueError(
            f"mx_driving.{kernel}: expected boxes of shape (n, 7) and scores of shape (n,), found "
            f"{tuple(boxes.shape)} and {tuple(scores.shape)}"
        )
