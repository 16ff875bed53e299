"""Pooling of point features in a bird's-eye view (mx-driving 26.2, ``mx_driving/ops/bev_pool.py``)."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._pooling import cell_of, check_coordinates, pool, require_view


class BEVPool(Function):
    """Adds features up in cells; see :func:`bev_pool`. (The real Function takes the rows sorted by cell.)"""

    @staticmethod
    def forward(ctx: Any, feat: Tensor, geom_feat: Tensor, view: tuple[int, int, int, int]) -> Tensor:
        """Pool."""
        calls["bev_pool"] += 1
        ctx.pool = partial(pool, cell=cell_of(geom_feat, view), view=view)
        ctx.save_for_backward(feat)
        return ctx.pool(feat)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of feat, and ``None`` for the two other arguments."""
        calls["bev_pool_backward"] += 1
        (grad,) = gradients(ctx.pool, ctx.saved_tensors, grad_output)
        return grad, None, None


def bev_pool(feat: Tensor, geom_feat: Tensor, B: int, D: int, H: int, W: int) -> Tensor:
    """Add features up in the cells that they lie in.

    Args:
        feat: shape (n, c); on the device float32, c at most 1024. (mx_driving also recommends B and D up to 8, H and W
            up to 256; its own tests go beyond, and so that is no limit here.)
        geom_feat: (h, w, d, b) of each row, integers of shape (n, 4).
        B: number of images.
        D: size of the view along the depth.
        H: along the height.
        W: along the width.

    Returns:
        Shape (B, c, D, H, W), zero where no feature lies.

    Raises:
        LimitError: the arguments are outside the limits of the device.
        ValueError: a coordinate is outside the view, or a tensor has another shape than described.
    """
    view = (B, D, H, W)
    check_coordinates("bev_pool", feat, geom_feat, view)
    limits.require(feat.shape[1] <= 1024, "bev_pool", "at most 1024 channels", feat.shape[1])
    require_view("bev_pool", view, feat.shape[1])
    return BEVPool.apply(feat, geom_feat, view)
