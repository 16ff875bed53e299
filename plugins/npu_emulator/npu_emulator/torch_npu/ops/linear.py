"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional

from npu_emulator.torch_npu.ops.registry import operator

__all__ = ["npu_bmm_v2", "npu_linear"]


@operator("npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor")
def npu_linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Args:
        input: shape (..., in).
        weight: shape (out, in).
        bias: shape (out,), or ``None``.
    """
    return functional.linear(input, weight, bias)


@operator("npu_bmmV2(Tensor input, Tensor mat2, int[] output_sizes) -> Tensor")
def npu_bmm_v2(input: Tensor, mat2: Tensor, output_sizes: Sequence[int]) -> Tensor:
    """Return the product of matrices, or of batches of them.

    Args:
        input: shape (..., m, k).
        mat2: shape (..., k, n), the dimensions before the last two broadcast with those of ``input``.
        output_sizes: shape of the result; empty for (..., m, n). Dimensions of the product that it lacks are summed,
            as the device does in the backward pass of a broadcast.
    """
    product = torch.matmul(input, mat2)
    return product.sum_to_size(tuple(output_sizes)) if output_sizes else product
