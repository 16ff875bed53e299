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
from npu_graph.pipeline.subgraph import Operand, Operation
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.mm.default, infer=inference.matrix_product)
    def matrix_product(operation: Operation, self: Operand, mat2: Operand) -> Block:
        return Block(lambda writer, results: _product(results[0], writer.buffer(self), writer.buffer(mat2)))

    @vendor.conversion(aten.bmm.default, infer=inference.matrix_product)
    def products(operation: Operation, self: Operand, mat2: Operand) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            counter = writer.unique("batch")
            buffers = results[0], writer.buffer(self), writer.buffer(mat2)
            call = _call(
                *([*(f"{b.pointer} + {counter} * {size(b.stride[0])}" for b in buffers)]),
                *(b.arranged(b.shape[1:], b.stride[1:]) for b in buffers),
            )
            return f"for (int64_t {counter} = 0; {counter} < {size(self.shape[0])}; {counter}++)\n{call}"

        return Block(write)

    @vendor.conversion(aten.addmm.default, infer=inference.matrix_product)
    def product_and_sum(
        operation: Operation, self: Operand, mat1: Operand, mat2: Operand, beta: Any, alpha: Any
    ) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            result = results[0]
            product = _product(result, writer.buffer(mat1), writer.buffer(mat2))

            def add(reader: Reader, index: Index) -> str:
                terms = [_times(operation, alpha, result.at(index))]
                if isinstance(beta, Operand) or beta != 0:  # torch passes over what is in self, NaN too
                    terms.append(_times(operation, beta, reader.read(self, broadcast(self, index))))
                return f"{result.at(index)} = {' + '.join(terms)};"

            return f"{product}\n{writer.loops(result.shape, add)}"

        return Block(write)


def _product(result: Buffer, one: Buffer, other: Buffer) -> str:
    return _call(result.pointer, one.pointer, other.pointer, result, one, other)


def _call(target: str, first: str, second: str, result: Buffer, one: Buffer, other: Buffer) -> str:
    shape = f"{size(one.shape[0])}, {size(other.shape[1])}, {size(one.shape[1])}"
    strides = ", ".join(size(stride) for stride in (*one.stride, *other.stride))
    call = f"matrix_product_{result.c_type}({shape}, {first}, {second}, {strides}, {target}, {size(result.stride[0])})"
    return f"if ({call}) goto no_memory;"


def _times(operation: Operation, factor: Any, text: str) -> str:
    if not isinstance(factor, Operand) and factor == 1:
        return text
    return f"{number(factor, operation.dtype)} * {text}"
