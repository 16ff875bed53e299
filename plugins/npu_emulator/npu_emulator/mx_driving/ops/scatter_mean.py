"""Means of groups (mx-driving 26.2, ``mx_driving/ops/scatter_mean.py``)."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._scattering import expanded, output_size, resolve_dim


class ScatterMeanFunction(Function):
    """Mean of the ``src[i]`` with the same ``index[i]``, along a dimension."""

    @staticmethod
    def forward(
        ctx: Any,
        src: Tensor,
        index: Tensor,
        out: Optional[Tensor] = None,
        dim: int = 0,
        dim_size: Optional[int] = None,
    ) -> Tensor:
        """Take the means.

        Args:
            ctx: the autograd context.
            src: on the device float32.
            index: for the leading dimensions of src, of their shape; on the device int32.
            out: the tensor to which the sums are added before they are divided by the number of elements of src; zeros
                without. It is left alone here; on the device, its content afterwards depends on the shapes.
            dim: the dimension to scatter along; a negative one counts from the end of index.
            dim_size: size of the result along dim; ignored where out is given.

        Returns:
            The shape of src but for dim. Groups without an element have the value of out, or zero.

        Raises:
            LimitError: the arguments are outside the limits of the device.
            ValueError: the arguments do not fit together.
        """
        dim = resolve_dim("scatter_mean", src, index, dim)
        shape = output_size("scatter_mean", src, index, dim, out, dim_size)
        limits.require(index.numel() > 0 and src.numel() > 0, "scatter_mean", "at least one element", "none")
        limits.require(not index.is_floating_point(), "scatter_mean", "indices of integers", index.dtype)
        calls["scatter_mean"] += 1
        place = expanded(index, src.shape)
        start = src.new_zeros(shape) if out is None else out.detach().to(src.dtype)
        count = src.new_zeros(shape).scatter_add(dim, place, torch.ones_like(src)).clamp(min=1)
        ctx.dim, ctx.shape = dim, src.shape
        ctx.save_for_backward(index, count)
        return start.scatter_add(dim, place, src) / count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of src, and ``None`` for the four other arguments, out among them."""
        calls["scatter_mean_backward"] += 1
        index, count = ctx.saved_tensors
        return (grad_output / count).gather(ctx.dim, expanded(index, ctx.shape)), None, None, None, None


# Bound as in mx_driving: positional arguments only.
scatter_mean = ScatterMeanFunction.apply
