"""Pooling in a bird's-eye view without sorting (mx-driving 26.2, ``mx_driving/ops/bev_pool_v3.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._pooling import cell_of, check_coordinates, pool, require_view
from npu_emulator.mx_driving.ops.bev_pool_v2 import lift_and_pool


class BEVPoolV3(Function):
    """Adds features up in cells, with or without depth; see :func:`bev_pool_v3`."""

    @staticmethod
    def forward(
        ctx: Any,
        depth: Optional[Tensor],
        feat: Tensor,
        ranks_depth: Optional[Tensor],
        ranks_feat: Optional[Tensor],
        ranks_bev: Tensor,
        bev_feat_shape: Sequence[int],
    ) -> Tensor:
        """Pool."""
        view = tuple(bev_feat_shape[:4])
        limits.require(feat.shape[-1] % 8 == 0, "bev_pool_v3", "a multiple of 8 channels", feat.shape[-1])
        require_view("bev_pool_v3", view, feat.shape[-1])
        if depth is None:
            check_coordinates("bev_pool_v3", feat, ranks_bev, view)
            ctx.pool = partial(pool, cell=cell_of(ranks_bev, view), view=view)
            inputs: tuple[Tensor, ...] = (feat,)
        else:
            ctx.pool = partial(
                lift_and_pool, ranks_depth=ranks_depth, ranks_feat=ranks_feat, ranks_bev=ranks_bev, view=view
            )
            inputs = (depth, feat)
        calls["bev_pool_v3"] += 1
        ctx.save_for_backward(*inputs)
        return ctx.pool(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of depth (``None`` without) and feat, and ``None`` for the four other arguments."""
        calls["bev_pool_v3_backward"] += 1
        *grad_depth, grad_feat = gradients(ctx.pool, ctx.saved_tensors, grad_output)
        return (grad_depth[0] if grad_depth else None), grad_feat, None, None, None, None


def bev_pool_v3(
    depth: Optional[Tensor],
    feat: Tensor,
    ranks_depth: Optional[Tensor],
    ranks_feat: Optional[Tensor],
    ranks_bev: Tensor,
    bev_feat_shape: Sequence[int],
) -> Tensor:
    """Do the same as bev_pool if depth is ``None``, else the same as bev_pool_v2, in any order of the terms.

    Args:
        depth: as for :func:`~npu_emulator.mx_driving.ops.bev_pool_v2.bev_pool_v2`, or ``None``.
        feat: (n, c) without depth, (b, cameras, h, w, c) with; on the device c is a multiple of 8.
        ranks_depth: as for bev_pool_v2, or ``None``.
        ranks_feat: likewise.
        ranks_bev: without depth (h, w, d, b) of each row, integers of shape (n, 4); with depth the cell of each term.
        bev_feat_shape: (b, d, h, w, c) of the view.

    Returns:
        Shape (b, c, d, h, w).

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: a coordinate is outside the view, or a tensor has another shape than described.
    """
    return BEVPoolV3.apply(depth, feat, ranks_depth, ranks_feat, ranks_bev, bev_feat_shape)
