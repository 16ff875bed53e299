"""Conversions of operators that read or write by index; an index out of range fails the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph.c.layout import fill
from npu_graph.c.loops import Block, Index, Map, broadcast
from npu_graph.c.memory import Buffer
from npu_graph.c.printing import is_one, number
from npu_graph.c.reading import Reader, Writer
from npu_graph.conditions import has_dimensions
from npu_graph.inference import broadcast as common_shape
from npu_graph.operations.options import Embedding, with_options
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.vendor import Vendor
from patchcore import Skip

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.embedding.default)
    @with_options(Embedding)
    def embedding(operation: Operation, weight: Operand, indices: Operand, options: Embedding) -> Map:
        def element(reader: Reader, index: Index) -> str:
            row = reader.checked(reader.read(indices, index[:-1]), weight.shape[0], wraps=False)
            return reader.read(weight, [row, index[-1]])

        return Map(element)

    @vendor.conversion(aten.index.Tensor, when=_by_numbers)
    def index(operation: Operation, self: Operand, indices: Sequence[Optional[Operand]]) -> Map:
        return Map(lambda reader, at: reader.read(self, _place(reader, self, indices, at)))

    @vendor.conversion(aten.index_put.default, when=_by_numbers)
    def index_put(
        operation: Operation, self: Operand, indices: Sequence[Optional[Operand]], values: Operand, accumulate: bool
    ) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            def put(reader: Reader, at: Index) -> str:
                sign = "+=" if accumulate else "="
                value = reader.read(values, broadcast(values, at))
                return f"{results[0].at(_place(reader, self, indices, at))} {sign} {value};"

            shape = _result_shape(self, indices)
            return "\n".join([fill(writer, results[0], self), writer.loops(shape, put, independent=0)])

        return Block(write, folds=(self,))

    @vendor.conversion(aten.gather.default, when=has_dimensions)
    def gather(operation: Operation, self: Operand, dim: int, index: Operand, sparse_grad: bool) -> Map:
        return Map(lambda reader, at: reader.read(self, _along(reader, self, dim, index, at)))

    @vendor.conversion(aten.scatter.src, when=has_dimensions)
    def scatter(operation: Operation, self: Operand, dim: int, index: Operand, src: Operand) -> Block:
        return _scattered(self, dim, index, lambda reader, at: f"= {reader.read(src, at)}", (self,))

    @vendor.conversion(aten.scatter.value, when=has_dimensions)
    def scatter_number(operation: Operation, self: Operand, dim: int, index: Operand, value: Any) -> Block:
        return _scattered(self, dim, index, lambda reader, at: f"= {number(value, operation.dtype)}", (self,))

    @vendor.conversion(aten.scatter_add.default, when=has_dimensions)
    def scatter_add(operation: Operation, self: Operand, dim: int, index: Operand, src: Operand) -> Block:
        return _scattered(self, dim, index, lambda reader, at: f"+= {reader.read(src, at)}", (self,))


def _scattered(self: Operand, dim: int, index: Operand, value: Any, folds: tuple[Operand, ...]) -> Block:
    def write(writer: Writer, results: Sequence[Buffer]) -> str:
        def put(reader: Reader, at: Index) -> str:
            text = value(reader, at)
            return f"{results[0].at(_along(reader, self, dim, index, at))} {text};"

        return "\n".join([fill(writer, results[0], self), writer.loops(index.shape, put, independent=dim % self.ndim)])

    return Block(write, folds)


def _along(reader: Reader, self: Operand, dim: int, index: Operand, at: Index) -> list[str]:
    here = dim % self.ndim
    row = reader.checked(reader.read(index, at), self.shape[here], wraps=False)
    return [row if d == here else place for d, place in enumerate(at)]


def _first(indices: Sequence[Optional[Operand]]) -> tuple[list[Operand], int]:
    """The indices, and where their dimensions are in the result: at the front if a slice lies between them."""
    given = [d for d, each in enumerate(indices) if each is not None]
    is_together = given == list(range(given[0], given[-1] + 1))
    return [each for each in indices if each is not None], given[0] if is_together else 0


def _result_shape(self: Operand, indices: Sequence[Optional[Operand]]) -> list[Any]:
    listed, first = _first(indices)
    kept = [n for d, n in enumerate(self.shape) if d >= len(indices) or indices[d] is None]
    return [*kept[:first], *common_shape([each.shape for each in listed]), *kept[first:]]


def _place(reader: Reader, self: Operand, indices: Sequence[Optional[Operand]], at: Index) -> list[str]:
    listed, first = _first(indices)
    rank = max(each.ndim for each in listed)
    inside, others = list(at[first : first + rank]), iter([*at[:first], *at[first + rank :]])
    found = []
    for d, n in enumerate(self.shape):
        each = indices[d] if d < len(indices) else None
        if each is None:
            place = next(others)
            found.append("0" if is_one(n) else place)
        else:
            found.append(reader.checked(reader.read(each, broadcast(each, inside)), n))
    return found


def _by_numbers(operation: Operation) -> Any:
    listed = [each for each in operation.arguments["indices"] if each is not None]
    if not listed:
        return Skip("no index")
    kinds = (torch.int64, torch.int32)
    return all(each.dtype in kinds for each in listed) or Skip("a mask")
