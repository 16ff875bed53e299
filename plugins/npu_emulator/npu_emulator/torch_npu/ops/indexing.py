"""Operators that find or place elements by index."""

from __future__ import annotations

from typing import Union

import torch
from torch import Tensor

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops.registry import operator, with_out

__all__ = [
    "npu_masked_fill_range",
    "npu_max",
    "npu_min",
    "npu_one_hot",
    "npu_scatter",
    "npu_sort_v2",
    "npu_sort_v2_out",
]


@operator(
    "npu_max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", differentiable=(0,)
)
def npu_max(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest elements along a dimension, and where they are.

    Args:
        input: any tensor.
        dim: the dimension.
        keepdim: whether it stays, with size 1.

    Returns:
        Values, and indices as int32.
    """
    values, indices = torch.max(input, dim, keepdim)
    return values, indices.int()


@operator(
    "npu_min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", differentiable=(0,)
)
def npu_min(input: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the smallest elements along a dimension, and where they are.

    Args:
        input: any tensor.
        dim: the dimension.
        keepdim: whether it stays, with size 1.

    Returns:
        Values, and indices as int32.
    """
    values, indices = torch.min(input, dim, keepdim)
    return values, indices.int()


@operator("npu_sort_v2(Tensor input, int dim=-1, bool descending=False) -> Tensor", differentiable=False)
def npu_sort_v2(input: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Return a tensor sorted along its last dimension, without the indices.

    Args:
        input: any tensor.
        dim: the last dimension; the device sorts no other.
        descending: whether the largest comes first.

    Raises:
        ValueError: ``dim`` is not the last.
    """
    if dim not in (-1, input.dim() - 1):
        raise ValueError(f"npu_sort_v2: expected dim to be the last of {input.dim()} dimensions, found {dim}")
    return torch.sort(input, dim=dim, descending=descending).values


@operator(
    "npu_one_hot(Tensor input, int num_classes=-1, int depth=1, Scalar on_value=1, Scalar off_value=0) -> Tensor",
    differentiable=False,
)
def npu_one_hot(
    input: Tensor,
    num_classes: int = -1,
    depth: int = 1,
    on_value: Union[int, float] = 1,
    off_value: Union[int, float] = 0,
) -> Tensor:
    """Return one value where an index points, and another elsewhere.

    Args:
        input: indices, any shape; one outside of [0, ``depth``) points nowhere.
        num_classes: the dimension of the result along which indices point; the name is op-plugin's.
        depth: the size of that dimension.
        on_value: the one value.
        off_value: the other.

    Returns:
        float32, with one dimension more than ``input``.
    """
    classes = torch.arange(depth, device=input.device)
    hit = (input.unsqueeze(-1) == classes).movedim(-1, num_classes)
    return torch.full(hit.shape, off_value, dtype=torch.float32, device=input.device).masked_fill(hit, on_value)


@operator("npu_scatter(Tensor input, Tensor indices, Tensor updates, int dim) -> Tensor", differentiable=False)
def npu_scatter(input: Tensor, indices: Tensor, updates: Tensor, dim: int) -> Tensor:
    """Return a copy with some elements replaced.

    Args:
        input: any tensor.
        indices: which along ``dim``: of the dimensions of ``input`` as for :func:`torch.scatter`, or without ``dim``,
            for one element each; empty for none.
        updates: the new values, of the shape of ``indices``.
        dim: the dimension.
    """
    if indices.numel() == 0:
        return input.clone()
    if indices.dim() < input.dim():
        indices, updates = indices.unsqueeze(dim), updates.unsqueeze(dim)
    return input.scatter(dim, indices.long(), updates)


@operator(
    "npu_masked_fill_range(Tensor input, Tensor start, Tensor end, Tensor value, int axis=-1) -> Tensor",
    differentiable=False,
)
def npu_masked_fill_range(input: Tensor, start: Tensor, end: Tensor, value: Tensor, axis: int = -1) -> Tensor:
    """Return a copy with ranges of the last dimension filled, one after the other.

    Args:
        input: shape (d,), (n, d) or (n, c, d).
        start: where each range of each of the n begins, shape (ranges, n), int32; n is 1 for shape (d,).
        end: where it ends, exclusive, likewise.
        value: the values to fill in, shape (ranges,).
        axis: the last dimension.

    Raises:
        NotEmulated: another dimension.
        ValueError: the shapes of the ranges do not fit.
    """
    if axis not in (-1, input.dim() - 1):
        raise NotEmulated(
            f"npu_masked_fill_range: axis={axis} of {input.dim()} dimensions is not emulated; transpose it to the last"
        )
    if start.dim() != 2 or start.shape != end.shape or value.shape != start.shape[:1]:
        raise ValueError(
            "npu_masked_fill_range: expected start and end of shape (ranges, n) and value of shape (ranges,), found "
            f"{tuple(start.shape)}, {tuple(end.shape)} and {tuple(value.shape)}"
        )
    position = torch.arange(input.shape[-1], device=input.device)
    per_row = (-1,) + (1,) * (input.dim() - 1)
    result = input
    for first, last, filling in zip(start.unbind(), end.unbind(), value.unbind()):
        in_range = (position >= first.view(per_row)) & (position < last.view(per_row))
        result = torch.where(in_range, filling.to(input.dtype), result)
    return result.clone()


npu_sort_v2_out = with_out(npu_sort_v2)
