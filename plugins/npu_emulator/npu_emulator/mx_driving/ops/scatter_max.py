"""Maxima of groups (mx-driving 26.2, ``mx_driving/ops/scatter_max.py``)."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._scattering import expanded, output_size

# Indices are below this (documented for scatter_max).
LARGEST_INDEX = 491520


class ScatterMaxFunction(Function):
    """Maximum of the rows with the same index. It has neither ``dim`` nor ``dim_size``, which scatter_add has."""

    @staticmethod
    def forward(ctx: Any, updates: Tensor, indices: Tensor, out: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
        """Take the maxima along the first dimension.

        Args:
            ctx: the autograd context.
            updates: shape (n, ...); on the device float32, and a multiple of 8 elements after the first dimension.
            indices: shape (n,), or (n, 1, ...); on the device int32.
            out: takes part in the maxima and **is overwritten with the result**.

        Returns:
            The maxima, zero where there is no element; and the row of updates that has the maximum, int32, n where
            none has it. Of equal ones it is the first; which one is undefined on the device.

        Raises:
            LimitError: the arguments are outside the limits of the device.
            ValueError: the arguments do not fit together.
        """
        if updates.dim() == 0 or indices.numel() != indices.shape[0] or len(indices) != len(updates):
            raise ValueError(
                f"mx_driving.scatter_max: expected updates of shape (n, ...) and indices of shape (n,), found "
                f"{tuple(updates.shape)} and {tuple(indices.shape)}"
            )
        indices = indices.flatten()
        shape = output_size("scatter_max", updates, indices, 0, out, None)
        _require_limits(updates, indices)
        calls["scatter_max"] += 1

        place = expanded(indices, updates.shape)
        lowest = updates.new_full(shape, -math.inf) if out is None else out.detach().to(updates.dtype)
        maxima = lowest.scatter_reduce(0, place, updates, "amax")
        maxima = maxima.masked_fill(maxima == -math.inf, 0)

        rows = torch.arange(len(updates), device=updates.device).view(-1, *(1,) * (updates.dim() - 1))
        rows = torch.where(updates == maxima.gather(0, place), rows, len(updates))
        argmax = torch.full(shape, len(updates), device=updates.device).scatter_reduce(0, place, rows, "amin").int()
        if out is not None:
            out.copy_(maxima)
        ctx.shape = updates.shape
        ctx.save_for_backward(argmax)
        ctx.mark_non_differentiable(argmax)
        return maxima, argmax

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor, grad_argmax: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of updates, and ``None`` for the two other arguments, out among them."""
        limits.require(len(ctx.shape) == 2, "scatter_max backward", "updates of two dimensions", tuple(ctx.shape))
        calls["scatter_max_backward"] += 1
        (argmax,) = ctx.saved_tensors
        # One row more than updates has, for the maxima that none of them has.
        grad = grad_output.new_zeros(ctx.shape[0] + 1, *ctx.shape[1:])
        return grad.scatter_add_(0, argmax.long(), grad_output)[:-1], None, None


# Bound as in mx_driving: positional arguments only.
scatter_max = ScatterMaxFunction.apply


def _require_limits(updates: Tensor, indices: Tensor) -> None:
    limits.require(indices.numel() > 0, "scatter_max", "at least one element", "none")
    limits.require(not indices.is_floating_point(), "scatter_max", "indices of integers", indices.dtype)
    row = math.prod(updates.shape[1:])
    limits.require(row % 8 == 0, "scatter_max", "rows of a multiple of 8 elements", row)
    largest = int(indices.max())
    limits.require(largest < LARGEST_INDEX, "scatter_max", f"indices below {LARGEST_INDEX}", largest)
