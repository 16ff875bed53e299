"""Pooling of pixel features over their depths (mx-driving 26.2, ``mx_driving/ops/bev_pool_v2.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._pooling import lift, pool, require_view


class BEVPoolV2(Function):
    """Adds pixel features, weighted by depth, up in cells; see :func:`bev_pool_v2`."""

    @staticmethod
    def forward(
        ctx: Any,
        depth: Tensor,
        feat: Tensor,
        ranks_depth: Tensor,
        ranks_feat: Tensor,
        ranks_bev: Tensor,
        bev_feat_shape: Sequence[int],
    ) -> Tensor:
        """Pool."""
        calls["bev_pool_v2"] += 1
        ctx.pool = partial(
            lift_and_pool,
            ranks_depth=ranks_depth,
            ranks_feat=ranks_feat,
            ranks_bev=ranks_bev,
            view=tuple(bev_feat_shape[:4]),
        )
        ctx.save_for_backward(depth, feat)
        return ctx.pool(depth, feat)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of depth and feat, and ``None`` for the four other arguments."""
        calls["bev_pool_v2_backward"] += 1
        return (*gradients(ctx.pool, ctx.saved_tensors, grad_output), None, None, None, None)


def bev_pool_v2(
    depth: Tensor,
    feat: Tensor,
    ranks_depth: Tensor,
    ranks_feat: Tensor,
    ranks_bev: Tensor,
    bev_feat_shape: Sequence[int],
    interval_starts: Tensor,
    interval_lengths: Tensor,
) -> Tensor:
    """Add pixel features, each times the probability of a depth, up in the cells that they lie in at that depth.

    Args:
        depth: probabilities of depths, shape (b, cameras, d, h, w); on the device float32, and so is feat.
        feat: shape (b, cameras, h, w, c); on the device c is at most 1024.
        ranks_depth: element of the flattened depth for each term, integers of shape (n,); on the device n is at most
            2**21.
        ranks_feat: pixel of feat, flattened, for each term.
        ranks_bev: cell, flattened, for each term; equal ones one after the other.
        bev_feat_shape: (b, d, h, w, c) of the view.
        interval_starts: first term of each run of equal cells.
        interval_lengths: number of terms of each run.

    Returns:
        Shape (b, c, d, h, w).

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: the intervals are not the runs of ``ranks_bev``, all of them, in order.
    """
    channels = feat.shape[-1]
    limits.require(channels <= 1024, "bev_pool_v2", "at most 1024 channels", channels)
    limits.require(len(ranks_bev) <= 2**21, "bev_pool_v2", "at most 2**21 terms", len(ranks_bev))
    require_view("bev_pool_v2", bev_feat_shape[:4], channels)
    cells, lengths = ranks_bev.unique_consecutive(return_counts=True)
    starts = lengths.cumsum(0) - lengths
    if not (torch.equal(interval_starts.long(), starts) and torch.equal(interval_lengths.long(), lengths)):
        raise ValueError(
            f"mx_driving.bev_pool_v2: expected one interval for each run of equal ranks_bev (runs: {len(cells)}), "
            f"found other intervals ({len(interval_starts)}); sort the ranks by ranks_bev before computing intervals"
        )
    return BEVPoolV2.apply(depth, feat, ranks_depth, ranks_feat, ranks_bev, bev_feat_shape)


def lift_and_pool(
    depth: Tensor, feat: Tensor, ranks_depth: Tensor, ranks_feat: Tensor, ranks_bev: Tensor, view: Sequence[int]
) -> Tensor:
    """Compute the result of :func:`bev_pool_v2`, of tensors that fit."""
    return pool(lift(depth, feat, ranks_depth, ranks_feat), ranks_bev, view)
