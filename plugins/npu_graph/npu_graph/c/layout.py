"""Conversions of operators that rearrange elements: views, which cost nothing, joins and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from npu_graph.c.elementwise import cast
from npu_graph.c.loops import Block, Index, View
from npu_graph.c.memory import Buffer
from npu_graph.c.printing import is_one, number
from npu_graph.c.reading import Reader, Writer
from npu_graph.conditions import does_not_crop
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.operations.values import expression
from npu_graph.vendor import Vendor
from patchcore import Skip

__all__ = ["declare", "fill"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.view.default, aten._unsafe_view.default)
    def reshape(operation: Operation, self: Operand, **size: Any) -> View:
        return View(self, lambda buffer: buffer.reshaped(operation.shape))

    @vendor.conversion(aten.alias.default)
    def alias(operation: Operation, self: Operand) -> View:
        return View(self, lambda buffer: buffer)

    @vendor.conversion(aten.permute.default)
    def permute(operation: Operation, self: Operand, dims: Sequence[int]) -> View:
        return View(self, lambda b: b.arranged([b.shape[d] for d in dims], [b.stride[d] for d in dims]))

    @vendor.conversion(aten.expand.default)
    def expand(operation: Operation, self: Operand, **size: Any) -> View:
        def arrange(buffer: Buffer) -> Buffer:
            new = len(operation.shape) - len(buffer.shape)
            kept = zip(buffer.shape, buffer.stride)
            return buffer.arranged(operation.shape, [0] * new + [0 if is_one(n) else stride for n, stride in kept])

        return View(self, arrange)

    @vendor.conversion(aten.unsqueeze.default)
    def unsqueeze(operation: Operation, self: Operand, dim: int) -> View:
        at = dim % (self.ndim + 1)
        return View(self, lambda b: b.arranged(operation.shape, [*b.stride[:at], 1, *b.stride[at:]]))

    @vendor.conversion(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
    def squeeze(operation: Operation, self: Operand, dim: Any = None) -> View:
        given = range(self.ndim) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
        gone = {int(d) % max(self.ndim, 1) for d in given}

        def arrange(buffer: Buffer) -> Buffer:
            kept = [d for d in range(self.ndim) if d not in gone or not is_one(buffer.shape[d])]
            return buffer.arranged([buffer.shape[d] for d in kept], [buffer.stride[d] for d in kept])

        return View(self, arrange)

    @vendor.conversion(aten.slice.Tensor, when=_is_settled)
    def take_slice(operation: Operation, self: Operand, dim: int, start: Any, end: Any, step: int) -> View:
        at = dim % self.ndim

        def arrange(buffer: Buffer) -> Buffer:
            strides = [stride * step if d == at else stride for d, stride in enumerate(buffer.stride)]
            first = _first(_settled(start), self.shape[at])
            return buffer.arranged(operation.shape, strides, buffer.offset + first * buffer.stride[at])

        return View(self, arrange)

    @vendor.conversion(aten.select.int, when=_is_settled)
    def select(operation: Operation, self: Operand, dim: int, index: Any) -> View:
        at = dim % self.ndim

        def arrange(b: Buffer) -> Buffer:
            offset = b.offset + _first(_settled(index), self.shape[at]) * b.stride[at]
            return b.arranged([*b.shape[:at], *b.shape[at + 1 :]], [*b.stride[:at], *b.stride[at + 1 :]], offset)

        return View(self, arrange)

    @vendor.conversion(aten.flip.default)
    def flip(operation: Operation, self: Operand, dims: Sequence[int]) -> View:
        turned = {d % self.ndim for d in dims} if self.ndim else set()

        def arrange(b: Buffer) -> Buffer:
            offset = b.offset + sum(((b.shape[d] - 1) * b.stride[d] for d in turned), sympy.Integer(0))
            return b.arranged(b.shape, [-s if d in turned else s for d, s in enumerate(b.stride)], offset)

        return View(self, arrange)

    @vendor.conversion(aten.diagonal.default)
    def diagonal(operation: Operation, self: Operand, offset: int, dim1: int, dim2: int) -> View:
        one, two = dim1 % self.ndim, dim2 % self.ndim

        def arrange(b: Buffer) -> Buffer:
            kept = [stride for d, stride in enumerate(b.stride) if d not in (one, two)]
            first = b.offset + max(-offset, 0) * b.stride[one] + max(offset, 0) * b.stride[two]
            return b.arranged(operation.shape, [*kept, b.stride[one] + b.stride[two]], first)

        return View(self, arrange)

    @vendor.conversion(aten.cat.default)
    def concatenate(operation: Operation, tensors: Sequence[Operand], dim: int) -> Block:
        # an empty tensor of one dimension fits everywhere in torch, whatever the others are
        whole = [each for each in tensors if not (each.ndim == 1 and len(operation.shape) > 1)]
        at = dim % len(operation.shape)

        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            texts, start = [], sympy.Integer(0)
            for each in whole:
                texts.append(fill(writer, _part(results[0], at, start, 1, each.shape), each))
                start = start + expression(each.shape[at])
            return "\n".join(texts)

        return Block(write, folds=tuple(whole))

    @vendor.conversion(aten.slice_scatter.default, when=_is_settled)
    def put_slice(
        operation: Operation, self: Operand, src: Operand, dim: int, start: Any, end: Any, step: int
    ) -> Block:
        at = dim % self.ndim

        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            part = _part(results[0], at, _first(_settled(start), self.shape[at]), step, src.shape)
            return "\n".join([fill(writer, results[0], self), fill(writer, part, src)])

        return Block(write, folds=(self, src))

    @vendor.conversion(aten.select_scatter.default, when=_is_settled)
    def put_selected(operation: Operation, self: Operand, src: Operand, dim: int, index: Any) -> Block:
        at = dim % self.ndim

        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            whole = results[0]
            first = _first(_settled(index), self.shape[at]) * whole.stride[at]
            part = whole.arranged(src.shape, [*whole.stride[:at], *whole.stride[at + 1 :]], whole.offset + first)
            return "\n".join([fill(writer, whole, self), fill(writer, part, src)])

        return Block(write, folds=(self, src))

    @vendor.conversion(aten.constant_pad_nd.default, when=does_not_crop)
    def constant_pad(operation: Operation, self: Operand, pad: Sequence[int], value: Any) -> Block:
        before = [*pad[::2], *[0] * (self.ndim - len(pad) // 2)][::-1]  # torch begins with the last dimension

        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            whole = results[0]
            around = number(value, operation.dtype)
            start = sum((n * stride for n, stride in zip(before, whole.stride)), whole.offset)
            inner = whole.arranged(self.shape, whole.stride, start)
            blank = writer.loops(whole.shape, lambda reader, index: f"{whole.at(index)} = {around};")
            return "\n".join([blank, fill(writer, inner, self)])

        return Block(write, folds=(self,))


def fill(writer: Writer, target: Buffer, source: Operand) -> str:
    """Return loops that copy an operand into memory."""

    def body(reader: Reader, index: Index) -> str:
        return f"{target.at(index)} = {cast(reader.read(source, index), source.dtype, target.dtype)};"

    return writer.loops(source.shape, body)


def _part(whole: Buffer, dim: int, start: Any, step: int, shape: Sequence[Any]) -> Buffer:
    strides = [stride * step if d == dim else stride for d, stride in enumerate(whole.stride)]
    return whole.arranged(shape, strides, whole.offset + start * whole.stride[dim])


def _first(start: Any, limit: Any) -> Any:
    """Where a slice begins, counted from the front and inside."""
    first, limit = expression(0 if start is None else start), expression(limit)
    return sympy.Min(first, limit) if first.is_nonnegative else sympy.Max(first + limit, 0)


def _settled(given: Any) -> Any:
    return given.value if isinstance(given, Operand) else given


def _is_settled(operation: Operation) -> Any:
    """A condition: places are known, or sizes, which are not negative."""
    if not operation.arguments["self"].ndim:
        return Skip("a tensor of no dimensions")
    for name in ("start", "index"):
        given = operation.arguments.get(name)
        if isinstance(given, Operand) and not isinstance(given.value, (int, torch.SymInt)):
            return Skip(f"{name} is no size")
        if isinstance(given, Operand) and not expression(given.value).is_nonnegative:
            return Skip(f"{name} may be negative")
    return True
