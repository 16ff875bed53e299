"""Square matrices times column vectors on NPU tensors, ``projection @ points[..., None]``, as one product and one sum.

A batched multiplication of 3 x 3 or 4 x 4 matrices leaves the matrix unit of an NPU idle; ``npu_batch_matmul``
(distribution mx-driving 26.2, ``mx_driving/ops/npu_batch_matmul.py``) multiplies element by element and sums instead.
The shapes taken are those of the patch ``batch_matmul`` of ``mx_driving.patcher`` 26.2.
"""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc
from torch_npu_patches.wrapping import mark_wrapper

RANKS = range(4, 8)

_Matmul = Callable[..., Any]


def make_matmul(original: _Matmul, device: str = "npu") -> _Matmul:
    """Return a ``torch.matmul`` that uses the kernel for the arguments that it takes; see :func:`make_method`."""
    import torch

    tensor_type = torch.Tensor
    fits, multiply = _make_fits(device), _make_multiply(device)

    def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
        if out is not None:
            return original(input, other, out=out)
        if type(other) is tensor_type and other.dim() > 3 and other.shape[-1] == 1 and fits(input, other):
            return multiply(input, other)
        return original(input, other)

    def scripted(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return original(input, other)

    return _as(original, matmul, scripted, "matmul")


def make_method(original: _Matmul, device: str = "npu") -> _Matmul:
    """Return a ``Tensor.matmul`` or ``Tensor.__matmul__`` that uses the kernel for the arguments that it takes.

    That is a multiplication of two tensors on ``device``, of the same rank from 4 to 7, whose batch dimensions are
    equal or 1: square matrices by matrices of one column, both float32 or both float16. Everything else goes to
    ``original``, most of it after one cheap question, the rank of ``other``: every multiplication comes through here.

    Args:
        original: the method to fall back to.
        device: type of the device whose tensors are treated so.
    """
    import torch

    tensor_type = torch.Tensor
    fits, multiply = _make_fits(device), _make_multiply(device)

    def matmul(self: Any, other: Any) -> Any:
        if type(other) is tensor_type and other.dim() > 3 and other.shape[-1] == 1 and fits(self, other):
            return multiply(self, other)
        return original(self, other)

    def scripted(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return original(self, other)

    return _as(original, matmul, scripted, f"Tensor.{original.__name__}")


def _make_fits(device: str) -> Callable[[Any, Any], bool]:
    """Return the test whether the kernel takes two matrices, the second being a plain tensor of one column."""
    import torch

    tensor_type, dtypes = torch.Tensor, (torch.float32, torch.float16)

    def fits(matrix: Any, column: Any) -> bool:
        if type(matrix) is not tensor_type or column.device.type != device or matrix.device != column.device:
            return False
        rank, rows = column.dim(), column.shape[-2]
        return (
            rank in RANKS
            and matrix.dim() == rank
            and matrix.shape[-2:] == (rows, rows)
            and column.dtype in dtypes
            and matrix.dtype is column.dtype  # the kernel would promote, matmul raises
            and matrix.numel() > 0  # the kernel does not broadcast an empty dimension
            and column.numel() > 0
            and all(m == c or m == 1 or c == 1 for m, c in zip(matrix.shape[:-2], column.shape[:-2]))
        )

    return fits


def _make_multiply(device: str) -> Callable[[Any, Any], Any]:
    """Return the multiplication by the kernel, with the dtype that matmul has under autocast."""
    import torch

    def multiply(matrix: Any, column: Any) -> Any:
        from mx_driving import npu_batch_matmul

        product = npu_batch_matmul(matrix, column)
        return product.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else product

    return multiply


def _as(original: Any, replacement: Any, scripted: Any, name: str) -> Any:
    """Give ``replacement`` the name under which it is found, by which it is pickled, and its form for TorchScript.

    TorchScript knows torch's functions by identity and would compile this one (``torch/jit/_recursive.py`` asks for
    ``__prepare_scriptable__``); its code never runs Python, so it keeps the original.
    """
    replacement.__module__, replacement.__qualname__, replacement.__name__ = "torch", name, original.__name__
    replacement.__doc__ = original.__doc__
    replacement.__prepare_scriptable__ = lambda: scripted
    mark_wrapper(replacement, original)
    return replacement


BATCH_MATMUL = pc.Patch(
    "torch.batch_matmul",
    [
        pc.Replace("torch:matmul", factory=make_matmul),
        pc.Replace("torch:Tensor.matmul", factory=make_method),
        pc.Replace("torch:Tensor.__matmul__", factory=make_method),
    ],
    summary="square matrices times column vectors of NPU tensors on the mx_driving kernel",
    requires="torch>=2.4",  # the first whose autocast takes a device type
    needs=["torch_npu", "mx_driving"],
    legacy_names=["batch_matmul", "BatchMatmul"],
    checks=pc.Check("torch_npu_patches.checks:projections", dtypes={"float32": 1e-5, "float16": 5e-3}),
)
