"""Conversions of operators that read or write by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph.conditions import has_dimensions
from npu_graph.operations.options import Embedding, with_options
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import value
from npu_graph.vendor import Vendor
from patchcore import Skip

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.embedding.default)
    @with_options(Embedding)
    def embedding(operation: Operation, weight: Operand, indices: Operand, options: Embedding) -> str:
        return f"{weight}[numerics.from_front({indices})]"

    @vendor.conversion(aten.index.Tensor)
    def index(operation: Operation, self: Operand, indices: Sequence[Optional[Operand]]) -> str:
        return f"{self}[{_place(indices)}]"

    @vendor.conversion(aten.index_put.default)
    def index_put(
        operation: Operation, self: Operand, indices: Sequence[Optional[Operand]], values: Operand, accumulate: bool
    ) -> str:
        function = "numerics.add_at" if accumulate else "numerics.put"
        return f"{function}({self}, np.s_[{_place(indices)}], {values})"

    @vendor.conversion(aten.gather.default, when=_along_dimensions)
    def gather(operation: Operation, self: Operand, dim: int, index: Operand, sparse_grad: bool) -> str:
        return f"{self}[numerics.along({index}, {dim})]"

    @vendor.conversion(aten.scatter.src, when=_along_dimensions)
    def scatter(operation: Operation, self: Operand, dim: int, index: Operand, src: Operand) -> str:
        return f"numerics.put({self}, numerics.along({index}, {dim}), numerics.crop({src}, {index}.shape))"

    @vendor.conversion(aten.scatter.value, when=_along_dimensions)
    def scatter_number(operation: Operation, self: Operand, dim: int, index: Operand, value: Any) -> str:
        return f"numerics.put({self}, numerics.along({index}, {dim}), {_number(operation, value)})"

    @vendor.conversion(aten.scatter_add.default, when=_along_dimensions)
    def scatter_add(operation: Operation, self: Operand, dim: int, index: Operand, src: Operand) -> str:
        return f"numerics.add_at({self}, numerics.along({index}, {dim}), numerics.crop({src}, {index}.shape))"


def _along_dimensions(operation: Operation) -> Any:
    """A condition: operand and index have as many dimensions, which an empty index need not have in torch."""
    if operation.arguments["index"].ndim != operation.arguments["self"].ndim:
        return Skip("an index of other dimensions")
    return has_dimensions(operation)


def _number(operation: Operation, number: Any) -> str:
    return value(number, operation.dtype)


def _place(indices: Sequence[Optional[Operand]]) -> str:
    """An index in brackets: everything where there is none."""
    return ", ".join(":" if index is None else str(index) for index in indices)
