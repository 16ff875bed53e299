"""Products of many small matrices with a vector each (mx-driving 26.2, ``mx_driving/ops/npu_batch_matmul.py``)."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_emulator.mx_driving._counting import calls


def npu_batch_matmul(projection_mat: Tensor, pts_extend: Tensor) -> Tensor:
    """Multiply matrices with columns: ``projection_mat @ pts_extend`` where there is one column each.

    The real one is made of PyTorch operators since 26.2 and so has no limits of its own, although its page still names
    matrices of 3 x 3 and 4 x 4, and rows instead of columns. Its gradients are those of the operators.

    Args:
        projection_mat: shape (..., n, n), with as many dimensions as pts_extend, which broadcast.
        pts_extend: shape (..., n, 1).

    Returns:
        Shape (..., n, 1); of float16, summed in float32.

    Raises:
        ValueError: the shapes do not fit. (mx_driving computes something else of two n x n matrices.)
    """
    matrix, column = projection_mat.shape, pts_extend.shape
    if len(matrix) != len(column) or len(matrix) < 2 or column[-1] != 1 or not matrix[-1] == matrix[-2] == column[-2]:
        raise ValueError(
            "mx_driving.npu_batch_matmul: expected shapes (..., n, n) and (..., n, 1) of as many dimensions, found "
            f"{tuple(matrix)} and {tuple(column)}"
        )
    calls["npu_batch_matmul"] += 1
    dtype = projection_mat.dtype
    if dtype == torch.float16:
        projection_mat, pts_extend = projection_mat.float(), pts_extend.float()
    product = projection_mat * pts_extend.transpose(-1, -2)
    return product.sum(dim=-1, keepdim=True).to(dtype)
