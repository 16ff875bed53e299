"""Reshaping, transposing, padding and slicing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops.registry import operator, with_out

__all__ = [
    "npu_broadcast",
    "npu_broadcast_out",
    "npu_confusion_transpose",
    "npu_indexing",
    "npu_indexing_out",
    "npu_pad",
    "npu_reshape",
    "npu_reshape_out",
    "npu_slice",
    "npu_slice_out",
    "npu_stride_copy",
    "npu_stride_copy_out",
    "npu_transpose",
    "npu_transpose_out",
]


@operator("npu_reshape(Tensor input, int[] shape, bool can_refresh=False) -> Tensor", differentiable=False)
def npu_reshape(input: Tensor, shape: Sequence[int], can_refresh: bool = False) -> Tensor:
    """Return a copy of another shape.

    Args:
        input: any tensor.
        shape: the other one.
        can_refresh: without effect.
    """
    return input.reshape(tuple(shape)).clone()


@operator("npu_transpose(Tensor input, int[] perm, bool require_contiguous=True) -> Tensor", differentiable=False)
def npu_transpose(input: Tensor, perm: Sequence[int], require_contiguous: bool = True) -> Tensor:
    """Return a contiguous copy with the dimensions in another order.

    Args:
        input: any tensor.
        perm: which dimension comes where, as in :func:`torch.permute`.
        require_contiguous: without effect.
    """
    return input.permute(tuple(perm)).clone(memory_format=torch.contiguous_format)


@operator(
    "npu_transpose.out(Tensor input, int[] perm, bool require_contiguous=True, *, Tensor(a!) out) -> Tensor(a!)",
    differentiable=False,
)
def npu_transpose_out(input: Tensor, perm: Sequence[int], require_contiguous: bool = True, *, out: Tensor) -> Tensor:
    """Write the result of :func:`npu_transpose` into a tensor.

    Args:
        input: any tensor.
        perm: which dimension comes where.
        require_contiguous: without effect.
        out: takes the result, of its shape.
    """
    return out.copy_(input.permute(tuple(perm)))


@operator("npu_broadcast(Tensor input, int[] size) -> Tensor", differentiable=False)
def npu_broadcast(input: Tensor, size: Sequence[int]) -> Tensor:
    """Return a contiguous copy that is repeated to another shape, as :meth:`torch.Tensor.expand` understands it.

    Args:
        input: any tensor.
        size: the other shape.
    """
    return input.expand(tuple(size)).clone(memory_format=torch.contiguous_format)


@operator("npu_broadcast.out(Tensor input, int[] size, *, Tensor(a!) out) -> Tensor(a!)", differentiable=False)
def npu_broadcast_out(input: Tensor, size: Sequence[int], *, out: Tensor) -> Tensor:
    """Write the result of :func:`npu_broadcast` into a tensor.

    Args:
        input: any tensor.
        size: the other shape.
        out: takes the result, of that shape.
    """
    return out.copy_(input.expand(tuple(size)))


@operator("npu_confusion_transpose(Tensor input, int[] perm, int[] shape, bool transpose_first) -> Tensor")
def npu_confusion_transpose(input: Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool) -> Tensor:
    """Reshape and transpose in one go, to a contiguous result.

    Args:
        input: any tensor.
        perm: which dimension comes where.
        shape: to reshape to.
        transpose_first: whether to transpose before reshaping; otherwise after.
    """
    if transpose_first:
        result = input.permute(tuple(perm)).reshape(tuple(shape))
    else:
        result = input.reshape(tuple(shape)).permute(tuple(perm))
    return result.clone(memory_format=torch.contiguous_format)


@operator("npu_pad(Tensor input, int[] paddings) -> Tensor", differentiable=False)
def npu_pad(input: Tensor, paddings: Sequence[int]) -> Tensor:
    """Surround a tensor with zeros.

    Args:
        input: any tensor.
        paddings: how many before and after, for the first dimension, then for the second, and so on.

    Raises:
        ValueError: the numbers are not two per dimension.
    """
    if len(paddings) != 2 * input.dim():
        raise ValueError(
            f"npu_pad: expected 2 * {input.dim()} paddings for shape {tuple(input.shape)}, found {len(paddings)}"
        )
    # torch begins with the last dimension.
    pairs = list(zip(paddings[::2], paddings[1::2]))
    return functional.pad(input, [amount for pair in reversed(pairs) for amount in pair])


@operator("npu_slice(Tensor input, int[] offsets, int[] size) -> Tensor", differentiable=False)
def npu_slice(input: Tensor, offsets: Sequence[int], size: Sequence[int]) -> Tensor:
    """Return a copy of a box of a tensor.

    Args:
        input: any tensor.
        offsets: where the box begins, per dimension.
        size: how large it is, per dimension.

    Raises:
        ValueError: not one number per dimension.
    """
    if not len(offsets) == len(size) == input.dim():
        raise ValueError(
            f"npu_slice: expected {input.dim()} offsets and sizes for shape {tuple(input.shape)}, "
            f"found {len(offsets)} and {len(size)}"
        )
    result = input
    for dim, (start, length) in enumerate(zip(offsets, size)):
        result = result.narrow(dim, start, length)
    return result.clone(memory_format=torch.contiguous_format)


@operator(
    "npu_indexing(Tensor input, int[] begin, int[] end, int[] strides, int begin_mask=0, int end_mask=0,"
    " int ellipsis_mask=0, int new_axis_mask=0, int shrink_axis_mask=0) -> Tensor",
    differentiable=False,
)
def npu_indexing(
    input: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """Return a copy of ``input[begin[0]:end[0]:strides[0], begin[1]:end[1]:strides[1], ...]``.

    The masks, in which bit i is about entry i of the index, say what the numbers cannot.

    Args:
        input: any tensor.
        begin: where to begin, per entry.
        end: where to end.
        strides: positive.
        begin_mask: entries that begin at the beginning.
        end_mask: entries that end at the end.
        ellipsis_mask: the entry that is ``...``.
        new_axis_mask: entries that are ``None``.
        shrink_axis_mask: entries that are ``begin[i]`` alone, and drop their dimension.

    Raises:
        NotEmulated: a stride is negative.
        ValueError: ``begin``, ``end`` and ``strides`` differ in length.
    """
    if not len(begin) == len(end) == len(strides):
        raise ValueError(
            f"npu_indexing: expected begin, end and strides of one length, found {len(begin)}, {len(end)} and "
            f"{len(strides)}"
        )
    index: list[Any] = []
    for position, (start, stop, step) in enumerate(zip(begin, end, strides)):
        bit = 1 << position
        if ellipsis_mask & bit:
            entry: Any = Ellipsis
        elif new_axis_mask & bit:
            entry = None
        elif shrink_axis_mask & bit:
            entry = start
        elif step < 0:
            raise NotEmulated(f"npu_indexing: stride {step} in entry {position} is not emulated; use torch.flip")
        else:
            entry = slice(None if begin_mask & bit else start, None if end_mask & bit else stop, step)
        index.append(entry)
    return input[tuple(index)].clone(memory_format=torch.contiguous_format)


@operator(
    "npu_stride_copy(Tensor input, int[] shape, int[] stride, Scalar storage_offset) -> Tensor", differentiable=False
)
def npu_stride_copy(input: Tensor, shape: Sequence[int], stride: Sequence[int], storage_offset: int) -> Tensor:
    """Return a contiguous copy of :func:`torch.as_strided`.

    Args:
        input: any tensor.
        shape: of the result.
        stride: steps in the memory of ``input``, in elements.
        storage_offset: where in its memory to begin, in elements.
    """
    strided = input.as_strided(tuple(shape), tuple(stride), int(storage_offset))
    return strided.clone(memory_format=torch.contiguous_format)


npu_reshape_out = with_out(npu_reshape)
npu_slice_out = with_out(npu_slice)
npu_indexing_out = with_out(npu_indexing)
npu_stride_copy_out = with_out(npu_stride_copy)
