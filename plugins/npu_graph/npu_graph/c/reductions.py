"""Conversions of reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph import inference
from npu_graph.c.elementwise import cast
from npu_graph.c.loops import Block, Fold, Index, Part, places
from npu_graph.c.memory import Buffer, elements
from npu_graph.c.nests import collapse, enough
from npu_graph.c.printing import C_TYPES, size
from npu_graph.c.reading import Reader, Writer
from npu_graph.conditions import has_dimensions
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.mean.default)
    def add_up(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Fold:
        is_mean = operation.target in (aten.mean.dim, aten.mean.default)
        count = size(elements([self.shape[d] for d in _dims(self, dim)]))
        end = f"{{acc}} / (double){count}" if is_mean else "{acc}"
        return _folded(operation, self, dim, (_added_up(operation, "0", "+"),), "{acc} += {x};", end)

    @vendor.conversion(aten.prod.dim_int, aten.prod.default)
    def product(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Fold:
        return _folded(operation, self, dim, (_added_up(operation, "1", "*"),), "{acc} *= {x};")

    @vendor.conversion(aten.any.default, aten.any.dim, aten.any.dims)
    def any_of(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Fold:
        return _folded(operation, self, dim, (Part("acc", "int", "0", "|"),), "{acc} |= {x} != 0;")

    for operator, sign in {aten.amax: ">", aten.amin: "<"}.items():
        vendor.conversion(operator.default, infer=inference.reduction)(_extreme(sign))
    for packet, sign in {aten.max: ">", aten.min: "<"}.items():
        vendor.conversion(packet.default, infer=inference.reduction)(_extreme(sign))
        vendor.conversion(packet.dim, when=has_dimensions)(_extreme_with_place(sign))
    for packet, sign in {aten.argmax: ">", aten.argmin: "<"}.items():
        vendor.conversion(packet.default, when=has_dimensions)(_place(sign))
    vendor.conversion(aten.cumsum.default, when=has_dimensions)(cumulative_sum)


def _dims(operand: Operand, dim: Any) -> list[int]:
    """The dimensions of a reduction; none, or an empty list, means all of them in torch."""
    rank = operand.ndim
    if dim is None or (isinstance(dim, (list, tuple)) and not dim) or not rank:
        return list(range(rank))
    return sorted({int(d) % rank for d in (dim if isinstance(dim, (list, tuple)) else [dim])})


def _extreme(sign: str) -> Any:
    def extreme(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Fold:
        kind = self.dtype
        better = "{acc} = {x} " + sign + " {acc} ? {x} : {acc};"
        clause = "max" if sign == ">" else "min"
        if kind.is_floating_point:
            start = "-INFINITY" if sign == ">" else "INFINITY"
            parts = Part("acc", C_TYPES[kind], start, clause), Part("nan", "int", "0", "|")
            return _folded(operation, self, dim, parts, better + " {nan} |= {x} != {x};", "{nan} ? NAN : {acc}")
        info = (0, 1) if kind is torch.bool else (torch.iinfo(kind).min, torch.iinfo(kind).max)
        start = _limit(info[0] if sign == ">" else info[1])
        part = Part("acc", "int" if kind is torch.bool else C_TYPES[kind], start, clause)
        return _folded(operation, self, dim, (part,), better)

    return extreme


def _limit(value: int) -> str:
    """Return the least or largest whole number of a type."""
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def _folded(
    operation: Operation, operand: Operand, dim: Any, parts: tuple[Part, ...], step: str, end: str = "{acc}"
) -> Fold:
    """A fold of elements in the dtype of the result."""

    def element(reader: Reader, index: Index) -> str:
        return cast(reader.read(operand, index), operand.dtype, operation.dtype)

    return Fold(operand, tuple(_dims(operand, dim)), element, operation.dtype, parts, step, end)


def _added_up(operation: Operation, start: str, sign: str) -> Part:
    """An accumulator of sums and products: in double precision, of whole numbers in 64 bits."""
    return Part("acc", "double" if operation.dtype.is_floating_point else "int64_t", start, sign)


def _head(name: str, limit: Any) -> str:
    return f"for (int64_t {name} = 0; {name} < {size(limit)}; {name}++) {{"


def _shared(heads: Sequence[str], shape: Sequence[Any]) -> list[str]:
    """The heads of loops whose iterations threads share."""
    return [f"#pragma omp parallel for{collapse(len(heads))}{enough([shape])}", *heads] if heads else []


def _search(
    writer: Writer, operand: Operand, dim: Optional[int], sign: str, values: Optional[Buffer], found: Optional[Buffer]
) -> str:
    """The first extreme, or the first NaN, along one dimension, or in the whole tensor."""
    reader = writer.reader()
    shape = list(operand.shape)
    index = places(shape, f"{writer.unique('r')}_")
    inner = list(range(operand.ndim)) if dim is None else [dim % operand.ndim]
    text = reader.read(operand, index)
    heads = [_head(index[d], shape[d]) for d in inner if index[d] != "0"]
    place = index[inner[0]]
    for d in inner[1:]:
        place = f"({place}) * {size(shape[d])} + {index[d]}"
    outer = ["0" if d in inner else name for d, name in enumerate(index)]
    test = f"at < 0 || x {sign} best || (x != x && best == best)"
    lines = [f"int64_t at = -1; {C_TYPES[operand.dtype]} best = 0;", *heads, *reader.lines]
    lines += [f"const {C_TYPES[operand.dtype]} x = {text};", f"if ({test}) {{ best = x; at = {place}; }}"]
    lines.append("}" * len(heads))
    for buffer, name in ((values, "best"), (found, "at")):
        if buffer is not None:
            kept = (
                outer if len(buffer.shape) == len(shape) else [each for d, each in enumerate(outer) if d not in inner]
            )
            lines.append(f"{buffer.at(kept)} = {name};")
    loop = _shared([_head(name, shape[d]) for d, name in enumerate(outer) if name != "0"], shape)
    return "\n".join(["{", *loop, *lines, "}" * (len(loop) - bool(loop)), "}"])


def _extreme_with_place(sign: str) -> Any:
    def extreme_with_place(operation: Operation, self: Operand, dim: int, keepdim: bool) -> Block:
        return Block(lambda writer, results: _search(writer, self, dim, sign, *results), folds=(self,))

    return extreme_with_place


def _place(sign: str) -> Any:
    def place(operation: Operation, self: Operand, dim: Any, keepdim: bool) -> Block:
        return Block(lambda writer, results: _search(writer, self, dim, sign, None, results[0]), folds=(self,))

    return place


def cumulative_sum(operation: Operation, self: Operand, dim: int) -> Block:
    """Sums up to each element."""

    def write(writer: Writer, results: Sequence[Buffer]) -> str:
        reader, at = writer.reader(), dim % self.ndim
        index = places(self.shape, f"{writer.unique('r')}_")
        text = cast(reader.read(self, index), self.dtype, operation.dtype)
        kind = "double" if operation.dtype.is_floating_point else "int64_t"
        heads = [_head(name, n) for d, (name, n) in enumerate(zip(index, self.shape)) if d != at and name != "0"]
        inner = [] if index[at] == "0" else [_head(index[at], self.shape[at])]
        lines = [*_shared(heads, self.shape), f"{kind} acc = 0;", *inner, *reader.lines, f"acc += {text};"]
        lines += [f"{results[0].at(index)} = acc;", "}" * len([*heads, *inner])]
        return "\n".join(["{", *lines, "}"])

    return Block(write, folds=(self,))
