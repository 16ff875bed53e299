"""Sums, means and maxima of groups, as ``torch_scatter`` makes them, on the kernels of mx_driving.

torch_scatter (2.1.2, ``torch_scatter/scatter.py``) has no NPU code: its sums and means are torch's operators there, its
maxima do not run. The kernels (distribution mx-driving 26.2; constraints: ``docs/api/context/scatter_*.md`` in the
sources of the Driving SDK) take float32 and int32, count negative dimensions from the end of the *index*, and the one
for maxima groups whole rows along dimension 0, without ``dim_size``. So every call is laid out as rows in groups, which
all of them take, and the result is laid out as torch_scatter's callers expect it.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc

#: Elements of a row are a multiple of this many (32 bytes of float32).
ALIGNMENT = 8


def on_npu(src: Any, index: Any, dim: int = -1, out: Any = None, dim_size: Any = None) -> bool:
    """Return whether a kernel takes this call: NPU tensors that float32 holds exactly.

    The rest, integers and float64 among it, goes to torch_scatter itself. Arguments: see :func:`scatter_sum`.
    """
    import torch

    return (
        src.device.type == "npu"
        and index.device == src.device
        and src.dtype in (torch.float32, torch.float16, torch.bfloat16)
    )


def sum_on_npu(src: Any, index: Any, dim: int = -1, out: Any = None, dim_size: Any = None) -> bool:
    """Return whether the kernel for sums takes this call; it computes the index's maximum, so it takes no empty one."""
    return on_npu(src, index) and src.numel() > 0


def mean_on_npu(src: Any, index: Any, dim: int = -1, out: Any = None, dim_size: Any = None) -> bool:
    """Return whether the kernel for means takes this call; it has no gradient for ``out``."""
    return sum_on_npu(src, index) and not (out is not None and out.requires_grad)


class _Rows:
    """A call laid out for the kernels: a tensor of rows, and the group that each row belongs to.

    With an index of one number for each step along ``dim``, a row is all that lies at one step. With an index that
    varies along more dimensions, each of their positions has rows and groups of its own.

    Args:
        src, index, dim, out, dim_size: see :func:`scatter_sum`.

    Raises:
        IndexError: ``dim`` is out of range, or the index names a group that ``out`` or ``dim_size`` has not.
    """

    def __init__(self, src: Any, index: Any, dim: int, out: Any, dim_size: Any) -> None:
        import torch

        self.dim = _dimension(src, dim)
        self.steps = src.shape[self.dim]
        index = self._broadcast(index, src).movedim(self.dim, 0)
        self.rest = src.movedim(self.dim, 0).shape[1:]
        self.positions = index[0].numel()
        highest = int(index.max())
        self.groups = _count_groups(self.dim, out, dim_size, highest)
        if highest >= self.groups:
            raise IndexError(f"torch_scatter: the index names group {highest}, and there are {self.groups} groups")
        positions = torch.arange(self.positions, device=index.device)
        self.index = (index.reshape(self.steps, -1) * self.positions + positions).reshape(-1).to(torch.int32)
        self.rows = self.lay_out(src)

    def _broadcast(self, index: Any, src: Any) -> Any:
        """Return ``index`` with the dimensions of ``src``, those behind the last one along which it varies being 1.

        An index of rank 1 belongs to ``dim``, another one to the leading dimensions (``torch_scatter/utils.py``).
        """
        if index.dim() == 1:
            index = index.view(*[1] * self.dim, -1)
        index = index.view(*index.shape, *[1] * (src.dim() - index.dim()))
        last = max((d for d, size in enumerate(index.shape) if size > 1 and d != self.dim), default=-1)
        return index.expand([size if d == self.dim or d <= last else 1 for d, size in enumerate(src.shape)])

    def lay_out(self, tensor: Any) -> Any:
        """Return a tensor of the shape of src, or of the result, as float32 rows."""
        import torch

        rows = tensor.movedim(self.dim, 0).reshape(tensor.shape[self.dim] * self.positions, -1).float()
        padding = -rows.shape[1] % ALIGNMENT
        return torch.nn.functional.pad(rows, (0, padding)) if padding else rows

    def lay_back(self, rows: Any, dtype: Any) -> Any:
        """Return rows, one for each group at each position, in the shape of the result."""
        columns = self.rest.numel() // self.positions
        return rows[:, :columns].reshape(self.groups, *self.rest).movedim(0, self.dim).to(dtype)


def _dimension(src: Any, dim: int) -> int:
    if not -src.dim() <= dim < src.dim():
        raise IndexError(f"torch_scatter: dim={dim} is out of range for a tensor of {src.dim()} dimensions")
    return dim % src.dim()


def _count_groups(dim: int, out: Any, dim_size: Any, highest: int) -> int:
    if out is not None:
        return int(out.shape[dim])
    return highest + 1 if dim_size is None else int(dim_size)


def scatter_sum(src: Any, index: Any, dim: int = -1, out: Any = None, dim_size: Any = None) -> Any:
    """Replace ``torch_scatter.scatter_sum``: add up the elements of each group along a dimension.

    Args:
        src: floating point, any shape.
        index: the group of each element, from 0; of src's shape, or one that is broadcast to it. An index of rank 1 is
            the same for all positions along other dimensions than ``dim``.
        dim: the dimension along which groups are made.
        out: is added to in place, and returned.
        dim_size: how many groups there are; one more than the highest in ``index`` by default.

    Returns:
        The shape and dtype of src, with as many elements along ``dim`` as there are groups.

    Raises:
        IndexError: ``dim`` is out of range, or there is no such group.
    """
    from mx_driving import scatter_add as kernel

    laid = _Rows(src, index, dim, out, dim_size)
    sums = kernel(laid.rows, laid.index, None, 0, laid.groups * laid.positions)
    return laid.lay_back(sums, src.dtype) if out is None else out.add_(laid.lay_back(sums, out.dtype))


def scatter_mean(src: Any, index: Any, dim: int = -1, out: Any = None, dim_size: Any = None) -> Any:
    """Replace ``torch_scatter.scatter_mean``: the mean of each group, 0 for an empty one.

    Arguments and exceptions: see :func:`scatter_sum`. As in torch_scatter, the values in ``out`` are added to the sum,
    and not counted.
    """
    from mx_driving import scatter_mean as kernel

    laid = _Rows(src, index, dim, out, dim_size)
    if out is None:
        return laid.lay_back(kernel(laid.rows, laid.index, None, 0, laid.groups * laid.positions), src.dtype)
    # the kernel may or may not write into the sums that it starts from
    means = kernel(laid.rows, laid.index, laid.lay_out(out).clone(), 0, None)
    return out.copy_(laid.lay_back(means, out.dtype))


def scatter_max(src: Any, index: Any, dim: int = -1, out: Any = None, dim_size: Any = None) -> tuple[Any, Any]:
    """Replace ``torch_scatter.scatter_max``: the greatest element of each group, and where it is along ``dim``.

    Arguments and exceptions: see :func:`scatter_sum`; ``out`` is compared with as one element more.

    Returns:
        The values, 0 for an empty group; and their positions (int64), ``src.shape[dim]`` for an empty group and for one
        whose value ``out`` had.
    """
    import torch
    from mx_driving import scatter_max as kernel

    if src.numel() == 0:
        return _max_of_nothing(src, index, _dimension(src, dim), out, dim_size)
    laid = _Rows(src, index, dim, out, dim_size)
    values, rows = kernel(laid.rows, laid.index, None)
    missing = (0, 0, 0, laid.groups * laid.positions - len(values))  # the kernel stops at the highest group
    values = laid.lay_back(torch.nn.functional.pad(values, missing), src.dtype if out is None else out.dtype)
    rows = torch.nn.functional.pad(rows.long(), missing, value=laid.steps * laid.positions)
    where = laid.lay_back(rows // laid.positions, torch.int64)
    if out is None:
        return values, where
    greater = (where < laid.steps) & (values > out)
    return out.copy_(torch.where(greater, values, out)), torch.where(greater, where, laid.steps)


def _max_of_nothing(src: Any, index: Any, dim: int, out: Any, dim_size: Any) -> tuple[Any, Any]:
    groups = _count_groups(dim, out, dim_size, highest=-1)
    shape = [groups if d == dim else size for d, size in enumerate(src.shape)]
    return src.new_zeros(shape) if out is None else out, index.new_full(shape, src.shape[dim]).long()


TORCH_SCATTER = pc.Patch(
    "torch_scatter.scatter",
    [
        pc.Replace("torch_scatter.scatter:scatter_sum", scatter_sum, when_call=sum_on_npu),
        pc.Replace("torch_scatter.scatter:scatter_mean", scatter_mean, when_call=mean_on_npu),
        pc.Replace("torch_scatter.scatter:scatter_max", scatter_max, when_call=on_npu),
    ],
    summary="scatter_sum, scatter_add, scatter_mean and scatter_max of NPU tensors on the mx_driving kernels",
    requires="torch_scatter>=2.1,<3",
    needs=["torch_npu", "mx_driving"],
    legacy_names=["scatter", "torch_scatter", "TorchScatter"],
    # in 16 bits several elements of a group are equally great, and which of them is found is nobody's promise
    checks=pc.Check("torch_npu_patches.checks:scattered", dtypes={"float32": 1e-5}),
    default=False,
)
