"""Conversions of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npu_graph import inference
from npu_graph.c.loops import Block, Index, broadcast
from npu_graph.c.memory import Buffer
from npu_graph.c.printing import number, size
from npu_graph.c.reading import Reader, Writer
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.mm.default, infer=inference.matrix_product)
    def matrix_product(operation: Operation, self: Operand, mat2: Operand) -> Block:
        return Block(lambda writer, results: _products(writer, results[0], self, mat2))

    @vendor.conversion(aten.bmm.default, infer=inference.matrix_product)
    def products(operation: Operation, self: Operand, mat2: Operand) -> Block:
        return Block(lambda writer, results: _products(writer, results[0], self, mat2))

    @vendor.conversion(aten.addmm.default, infer=inference.matrix_product)
    def product_and_sum(
        operation: Operation, self: Operand, mat1: Operand, mat2: Operand, beta: Any, alpha: Any
    ) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            result = results[0]
            product = _products(writer, result, mat1, mat2)

            def add(reader: Reader, index: Index) -> str:
                terms = [_times(operation, alpha, result.at(index))]
                if isinstance(beta, Operand) or beta != 0:  # torch ignores the values in self, NaN too
                    terms.append(_times(operation, beta, reader.read(self, broadcast(self, index))))
                return f"{result.at(index)} = {' + '.join(terms)};"

            return f"{product}\n{writer.loops(result.shape, add)}"

        return Block(write)


def _products(writer: Writer, result: Buffer, one: Operand, other: Operand) -> str:
    """A product of matrices, or of as many as there are in the first dimension."""
    buffers = writer.buffer(one), writer.buffer(other)
    several = [size(n) for n in one.shape[:-2]] or ["1"]
    sizes = ", ".join([*several, *map(size, (*one.shape[-2:-1], other.shape[-1], one.shape[-1]))])
    factors = [
        f"{buffer.pointer}, (int64_t[]){{{', '.join(map(size, [*[0] * (3 - len(buffer.stride)), *buffer.stride]))}}}"
        for buffer in buffers
    ]
    call = f"matrix_products_{result.c_type}({sizes}, {', '.join(factors)}, {result.pointer})"
    return f"if ({call}) goto no_memory;"


def _times(operation: Operation, factor: Any, text: str) -> str:
    if not isinstance(factor, Operand) and factor == 1:
        return text
    return f"{number(factor, operation.dtype)} * {text}"
