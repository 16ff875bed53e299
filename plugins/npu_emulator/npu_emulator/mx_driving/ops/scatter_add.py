"""Sums of groups (mx-driving 26.2, ``mx_driving/ops/scatter_add.py``)."""

from __future__ import annotations

from typing import Any, Optional

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._scattering import expanded, output_size, resolve_dim


class ScatterAddFunction(Function):
    """``out[index[i]] += src[i]`` along a dimension."""

    @staticmethod
    def forward(
        ctx: Any,
        src: Tensor,
        index: Tensor,
        out: Optional[Tensor] = None,
        dim: int = 0,
        dim_size: Optional[int] = None,
    ) -> Tensor:
        """Add up.

        Args:
            ctx: the autograd context.
            src: on the device float32, or cast to it and back.
            index: for the leading dimensions of src, of their shape; on the device int32.
            out: the tensor to which the sums are added; zeros without one. It takes the result **only where dim is the
                last dimension of index** and out is contiguous, as on the device; otherwise it is left alone.
            dim: the dimension to scatter along; a negative one counts from the end of index.
            dim_size: size of the result along dim; ignored where out is given.

        Returns:
            The shape of src but for dim.

        Raises:
            LimitError: the arguments are outside the limits of the device.
            ValueError: the arguments do not fit together.
        """
        dim = resolve_dim("scatter_add", src, index, dim)
        shape = output_size("scatter_add", src, index, dim, out, dim_size)
        limits.require(index.numel() > 0 and src.numel() > 0, "scatter_add", "at least one element", "none")
        limits.require(not index.is_floating_point(), "scatter_add", "indices of integers", index.dtype)
        calls["scatter_add"] += 1
        start = src.new_zeros(shape) if out is None else out.detach().to(src.dtype)
        result = start.scatter_add(dim, expanded(index, src.shape), src)
        if out is not None and dim == index.dim() - 1 and out.is_contiguous():
            out.copy_(result)
        ctx.dim, ctx.shape = dim, src.shape
        ctx.save_for_backward(index)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradient of src, and ``None`` for the four other arguments, out among them."""
        calls["scatter_add_backward"] += 1
        (index,) = ctx.saved_tensors
        return grad_output.gather(ctx.dim, expanded(index, ctx.shape)), None, None, None, None


# Bound as in mx_driving: positional arguments only.
scatter_add = ScatterAddFunction.apply
