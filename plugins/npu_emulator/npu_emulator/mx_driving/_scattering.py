"""The form of the arguments of scatter kernels."""

from __future__ import annotations

from typing import Optional

from torch import Tensor


def resolve_dim(kernel: str, src: Tensor, index: Tensor, dim: int) -> int:
    """Return the dimension to scatter along, counted from the front.

    Args:
        kernel: name of the kernel, for the message.
        src: the values that are scattered.
        index: where to, for the leading dimensions of src.
        dim: **a negative one counts from the end of index**, not of src.

    Raises:
        ValueError: index is no index of the leading dimensions of src, or there is no such dimension in it.
    """
    if index.dim() > src.dim() or index.shape != src.shape[: index.dim()]:
        raise ValueError(
            f"mx_driving.{kernel}: expected indices of the shape of src's leading dimensions, {tuple(src.shape)}, "
            f"found {tuple(index.shape)}"
        )
    if not -index.dim() <= dim < index.dim():
        raise ValueError(f"mx_driving.{kernel}: expected dim below {index.dim()}, indices' dimensions, found {dim}")
    return dim % index.dim()


def output_size(
    kernel: str, src: Tensor, index: Tensor, dim: int, out: Optional[Tensor], dim_size: Optional[int]
) -> tuple[int, ...]:
    """Return the shape of the result.

    Args:
        kernel: name of the kernel, for the message.
        src: the values that are scattered.
        index: where to.
        dim: the dimension to scatter along, counted from the front.
        out: gives the size where it is given.
        dim_size: gives the size along dim, otherwise; else it is the largest index plus 1.

    Raises:
        ValueError: out has another shape than needed, or an index is outside.
    """
    if dim_size is None:
        dim_size = int(index.max()) + 1 if index.numel() else 0
    shape = list(src.shape)
    shape[dim] = dim_size if out is None else out.shape[dim] if out.dim() == src.dim() else -1
    if out is not None and list(out.shape) != shape:
        raise ValueError(
            f"mx_driving.{kernel}: expected out of shape {tuple(src.shape)} but for dimension {dim}, found "
            f"{tuple(out.shape)}"
        )
    if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < shape[dim]):
        raise ValueError(
            f"mx_driving.{kernel}: expected indices from 0 to {shape[dim] - 1}, found {int(index.min())} to "
            f"{int(index.max())}"
        )
    return tuple(shape)


def expanded(index: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the index of every element, int64, from that of the leading dimensions."""
    trailing = (1,) * (len(shape) - index.dim())
    return index.long().reshape(*index.shape, *trailing).expand(shape)
