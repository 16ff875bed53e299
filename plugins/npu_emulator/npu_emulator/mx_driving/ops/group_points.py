"""Features of groups of points (mx-driving 26.2, ``mx_driving/ops/group_points.py``)."""

from __future__ import annotations

from typing import Any, Optional

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator.mx_driving._counting import calls


class AdsGroupPoints(Function):
    """``features[b, :, indices[b]]`` for each b."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, indices: Tensor) -> Tensor:
        """Gather; see :func:`group_points`."""
        calls["group_points"] += 1
        ctx.shape = features.shape
        ctx.save_for_backward(indices)
        return features.gather(2, _place(indices, features.shape[1])).unflatten(2, indices.shape[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of features, and ``None`` for indices."""
        calls["group_points_backward"] += 1
        (indices,) = ctx.saved_tensors
        grad = grad_output.new_zeros(ctx.shape)
        return grad.scatter_add_(2, _place(indices, ctx.shape[1]), grad_output.flatten(start_dim=2)), None


def group_points(features: Tensor, indices: Tensor) -> Tensor:
    """Gather the features of points in groups.

    Args:
        features: shape (b, c, n); on the device float32.
        indices: of points in groups, integers of shape (b, groups, samples).

    Returns:
        Shape (b, c, groups, samples).

    Raises:
        ValueError: the tensors have another shape than described.
    """
    if features.dim() != 3 or indices.dim() != 3 or len(indices) != len(features):
        raise ValueError(
            "mx_driving.group_points: expected features of shape (b, c, n) and indices of shape (b, groups, samples), "
            f"found {tuple(features.shape)} and {tuple(indices.shape)}"
        )
    return AdsGroupPoints.apply(features, indices)


def _place(indices: Tensor, channels: int) -> Tensor:
    return indices.long().flatten(start_dim=1).unsqueeze(1).expand(-1, channels, -1)
