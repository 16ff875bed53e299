"""Conversions of matrix products."""

from __future__ import annotations

from typing import Any

import torch

from npu_graph import inference
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import value
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.mm.default, aten.bmm.default, infer=inference.matrix_product)
    def matrix_product(operation: Operation, self: Operand, mat2: Operand) -> str:
        return f"np.matmul({self}, {mat2})"

    @vendor.conversion(aten.addmm.default, infer=inference.matrix_product)
    def product_and_sum(
        operation: Operation, self: Operand, mat1: Operand, mat2: Operand, beta: Any, alpha: Any
    ) -> str:
        product = _times(operation, alpha, f"np.matmul({mat1}, {mat2})")
        if not isinstance(beta, Operand) and beta == 0:
            return product  # torch ignores the values in self, NaN too
        return f"np.add({_times(operation, beta, str(self))}, {product})"


def _times(operation: Operation, factor: Any, text: str) -> str:
    if not isinstance(factor, Operand) and factor == 1:
        return text
    return f"np.multiply({value(factor, operation.dtype)}, {text})"
