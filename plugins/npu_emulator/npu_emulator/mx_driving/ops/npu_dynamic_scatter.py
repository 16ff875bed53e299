"""Reduction of points to voxels (mx-driving 26.2, ``mx_driving/ops/npu_dynamic_scatter.py``)."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Optional

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.formulas.differentiation import gradients
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._scattering import expanded
from npu_emulator.mx_driving._voxels import require_packable

#: The names of the reductions in mx_driving, and in torch.
REDUCTIONS = {"max": "amax", "sum": "sum", "mean": "mean"}


class DynamicScatterFunction(Function):
    """Maximum, sum or mean of the features of the points in each voxel."""

    @staticmethod
    def forward(ctx: Any, feats: Tensor, coors: Tensor, reduce_type: str = "max") -> tuple[Tensor, Tensor]:
        """Reduce.

        Args:
            ctx: the autograd context.
            feats: features of the points, shape (n, c); on the device float32, c at most 2048.
            coors: voxel of each point, integers of shape (n, 3), on the device int32, below 2048, 2048 and 256. Points
                with a negative coordinate are left out.
            reduce_type: ``max``, ``sum`` or ``mean``.

        Returns:
            The features of the voxels, shape (voxels, c), and their coordinates in ascending order, int32 of shape
            (voxels, 3).

        Raises:
            LimitError: the arguments are outside the limits of the device.
            ValueError: an argument is empty or has another form than described.
        """
        if feats.dim() != 2 or feats.numel() == 0 or tuple(coors.shape) != (len(feats), 3):
            raise ValueError(
                "mx_driving.dynamic_scatter: expected features of shape (n, c), not empty, and coordinates of shape "
                f"(n, 3), found {tuple(feats.shape)} and {tuple(coors.shape)}"
            )
        if reduce_type not in REDUCTIONS:
            raise ValueError(
                f"mx_driving.dynamic_scatter: expected a reduce_type of {', '.join(REDUCTIONS)}, found {reduce_type!r}"
            )
        limits.require(feats.shape[1] <= 2048, "dynamic_scatter", "at most 2048 features", feats.shape[1])
        require_packable("dynamic_scatter", [size + 1 for size in coors.amax(dim=0).tolist()])
        inside = (coors >= 0).all(dim=1)
        limits.require(bool(inside.any()), "dynamic_scatter", "points with coordinates from 0 on", "none")
        calls["dynamic_scatter"] += 1
        voxel_coors, voxel = coors[inside].unique(dim=0, return_inverse=True)
        ctx.reduce = partial(
            _reduce, inside=inside, voxel=voxel, voxels=len(voxel_coors), reduction=REDUCTIONS[reduce_type]
        )
        ctx.save_for_backward(feats)
        voxel_coors = voxel_coors.int()
        ctx.mark_non_differentiable(voxel_coors)
        return ctx.reduce(feats), voxel_coors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_feats: Tensor, grad_coors: Optional[Tensor] = None) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of feats, and ``None`` for the two other arguments.

        Points with the same maximum share its gradient; the device's page does not list the dtypes.
        """
        calls["dynamic_scatter_backward"] += 1
        (grad,) = gradients(ctx.reduce, ctx.saved_tensors, grad_feats)
        return grad, None, None


# Bound as in mx_driving: positional arguments only.
dynamic_scatter = DynamicScatterFunction.apply


def npu_dynamic_scatter(feats: Tensor, coors: Tensor, reduce_type: str = "max") -> tuple[Tensor, Tensor]:
    """Same as :func:`dynamic_scatter`; deprecated in mx_driving."""
    warnings.warn(
        "mx_driving.npu_dynamic_scatter is deprecated, use mx_driving.dynamic_scatter", DeprecationWarning, stacklevel=2
    )
    return dynamic_scatter(feats, coors, reduce_type)


def _reduce(feats: Tensor, inside: Tensor, voxel: Tensor, voxels: int, reduction: str) -> Tensor:
    points = feats[inside]
    output = points.new_zeros(voxels, points.shape[1])
    return output.scatter_reduce(0, expanded(voxel, points.shape), points, reduction, include_self=False)
