"""Sampling of points far from each other (mx-driving 26.2, ``mx_driving/ops/furthest_point_sampling.py``).

Paper: Qi et al., "PointNet++" (arXiv:1706.02413).
"""

from __future__ import annotations

import torch
from torch import Tensor

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls

# Numbers in point_xyz (documented for furthest_point_sampling).
MOST_NUMBERS = 383_166


@torch.no_grad()
def furthest_point_sampling(point_xyz: Tensor, num_points: int) -> Tensor:
    """Sample points: the first one, then again and again the one that is furthest from all sampled so far.

    Args:
        point_xyz: shape (b, n, 3).
        num_points: how many to sample.

    Returns:
        Indices of the points, int32 of shape (b, num_points).

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: there are no points, none is asked for, or they have another shape than described.
    """
    if point_xyz.dim() != 3 or point_xyz.shape[2] != 3 or point_xyz.numel() == 0 or num_points < 1:
        raise ValueError(
            "mx_driving.furthest_point_sampling: expected points of shape (b, n, 3), not empty, and one to sample at "
            f"least, found {tuple(point_xyz.shape)} and {num_points}"
        )
    numbers = point_xyz.numel()
    limits.require(numbers <= MOST_NUMBERS, "furthest_point_sampling", f"at most {MOST_NUMBERS} numbers", numbers)
    calls["furthest_point_sampling"] += 1
    batch, count, _ = point_xyz.shape
    sampled = point_xyz.new_zeros(batch, num_points, dtype=torch.int32)
    distance = point_xyz.new_full((batch, count), torch.inf)
    latest = point_xyz[:, :1]
    for number in range(1, num_points):
        distance = torch.minimum(distance, (point_xyz - latest).square().sum(dim=-1))
        furthest = distance.argmax(dim=1, keepdim=True)
        sampled[:, number : number + 1] = furthest.int()
        latest = point_xyz.gather(1, furthest.unsqueeze(-1).expand(-1, -1, 3))
    return sampled
