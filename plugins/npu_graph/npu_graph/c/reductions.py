"""Conversions of reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch

from npu_graph import inference
from npu_graph.c.elementwise import cast
from npu_graph.c.loops import Block, Index, Writer, places
from npu_graph.c.memory import Buffer, elements
from npu_graph.c.printing import C_TYPES, size
from npu_graph.pipeline.subgraph import Operand, Operation
from npu_graph.vendor import Vendor
from patchcore import Skip

__all__ = ["declare", "has_dimensions"]

aten = torch.ops.aten
#: Results of one thread at a time, where those that are reduced lie apart.
_TILE = 64


@dataclass(frozen=True)
class _Fold:
    """How elements become one.

    Args:
        start: with what.
        step: a statement, of the accumulators ``acc`` and ``nan`` and the element ``x``.
        simd: the reduction clause of OpenMP.
        end: the result.
    """

    start: str
    step: str
    simd: str
    end: str = "acc"


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.mean.default)
    def add_up(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Block:
        is_mean = operation.target in (aten.mean.dim, aten.mean.default)
        gone = _dims(self, dim)
        count = size(elements([self.shape[d] for d in gone]))
        fold = _Fold("0", "acc += x;", "+:acc", f"acc / (double){count}" if is_mean else "acc")
        return _reduced(operation, self, gone, fold)

    @vendor.conversion(aten.prod.dim_int, aten.prod.default)
    def product(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Block:
        return _reduced(operation, self, _dims(self, dim), _Fold("1", "acc *= x;", "*:acc"))

    @vendor.conversion(aten.any.default, aten.any.dim, aten.any.dims)
    def any_of(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Block:
        return _reduced(operation, self, _dims(self, dim), _Fold("0", "acc |= x != 0;", "|:acc"))

    for operator, sign in {aten.amax: ">", aten.amin: "<"}.items():
        vendor.conversion(operator.default, infer=inference.reduction)(_extreme(sign))
    for packet, sign in {aten.max: ">", aten.min: "<"}.items():
        vendor.conversion(packet.default, infer=inference.reduction)(_extreme(sign))
        vendor.conversion(packet.dim, when=has_dimensions)(_extreme_with_place(sign))
    for packet, sign in {aten.argmax: ">", aten.argmin: "<"}.items():
        vendor.conversion(packet.default, when=has_dimensions)(_place(sign))
    vendor.conversion(aten.cumsum.default, when=has_dimensions)(cumulative_sum)


def has_dimensions(operation: Operation) -> Any:
    """A condition: the first operand has a dimension."""
    return operation.operands[0].ndim > 0 or Skip("a tensor of no dimensions")


def _dims(operand: Operand, dim: Any) -> list[int]:
    """The dimensions of a reduction; none, or an empty list, means all of them in torch."""
    rank = operand.ndim
    if dim is None or (isinstance(dim, (list, tuple)) and not dim) or not rank:
        return list(range(rank))
    return sorted({int(d) % rank for d in (dim if isinstance(dim, (list, tuple)) else [dim])})


def _extreme(sign: str) -> Any:
    def extreme(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> Block:
        kind = self.dtype
        step = f"acc = x {sign} acc ? x : acc;"
        clause = "max:acc" if sign == ">" else "min:acc"
        if kind.is_floating_point:
            start = "-INFINITY" if sign == ">" else "INFINITY"
            fold = _Fold(start, f"{step} nan |= x != x;", f"{clause}) reduction(|:nan", "nan ? NAN : acc")
        else:
            info = (0, 1) if kind is torch.bool else (torch.iinfo(kind).min, torch.iinfo(kind).max)
            fold = _Fold(_limit(info[0] if sign == ">" else info[1]), step, clause)
        return _reduced(operation, self, _dims(self, dim), fold)

    return extreme


def _limit(value: int) -> str:
    """Return the least or largest whole number of a type."""
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def _accumulator(source: torch.dtype, fold: _Fold) -> str:
    """The type in which elements are folded: sums and products in double precision, whole numbers in 64 bits."""
    if "|:acc" in fold.simd:
        return "int"
    if "?" in fold.step:
        return "int" if source is torch.bool else C_TYPES[source]
    return "double" if source.is_floating_point else "int64_t"


def _reduced(operation: Operation, operand: Operand, gone: Sequence[int], fold: _Fold) -> Block:
    def write(writer: Writer, results: Sequence[Buffer]) -> str:
        reader, result = writer.reader(), results[0]
        index = places(operand.shape, f"{writer.unique('r')}_")
        kept = [d for d in range(operand.ndim) if d not in gone]
        source = reader.read(operand, index)
        computed = operation.dtype
        kind = _accumulator(computed, fold)
        lines = [*reader.lines, f"const {C_TYPES[computed]} x = {cast(source, operand.dtype, computed)};"]
        target = [place for d, place in enumerate(index) if d in kept]
        row = Buffer(result.root, tuple(operand.shape[d] for d in kept), _kept_strides(result, operand, gone))
        shape = list(operand.shape)
        inner = [d for d in gone if index[d] != "0"]
        outer = [d for d in kept if index[d] != "0"]
        if outer and inner and max(outer) > max(inner) and "nan" not in fold.step:
            return _in_tiles(writer, shape, index, (outer, inner), lines, kind, fold, row.at(target))
        heads = [_head(index[d], shape[d]) for d in inner]
        if heads and not reader.checks_indices:
            heads[-1] = f"#pragma omp simd reduction({fold.simd})\n{heads[-1]}"
        body = [f"{kind} acc = {fold.start};", *(["int nan = 0;"] if "nan" in fold.step else [])]
        body += [*heads, *lines, fold.step, "}" * len(heads), f"{row.at(target)} = {fold.end};"]
        loop = [_head(index[d], shape[d]) for d in outer]
        if loop:
            collapse = f" collapse({len(loop)})" if len(loop) > 1 else ""
            loop[0] = f"#pragma omp parallel for{collapse} if ({size(elements(shape))} >= 32768)\n{loop[0]}"
        return "\n".join(["{", *loop, *body, "}" * len(loop), "}"])

    return Block(write, folds=(operand,))


def _in_tiles(
    writer: Writer,
    shape: Sequence[Any],
    index: Index,
    dims: tuple[list[int], list[int]],
    lines: Sequence[str],
    kind: str,
    fold: _Fold,
    target: str,
) -> str:
    """Reduce dimensions outside the innermost one: neighbours in memory go into neighbouring accumulators."""
    (*outer, last), inner = dims
    start = writer.unique("start")
    end = f"smaller({start} + {_TILE}, {size(shape[last])})"
    loop = [_head(index[d], shape[d]) for d in outer]
    loop.append(f"for (int64_t {start} = 0; {start} < {size(shape[last])}; {start} += {_TILE}) {{")
    collapse = f" collapse({len(loop)})" if len(loop) > 1 else ""
    loop[0] = f"#pragma omp parallel for{collapse} if ({size(elements(shape))} >= 32768)\n{loop[0]}"
    each = f"for (int64_t {index[last]} = {start}; {index[last]} < end; {index[last]}++) {{"
    here = f"several[{index[last]} - {start}]"
    step = fold.step.replace("acc", here)
    return "\n".join(
        [
            *loop,
            f"const int64_t end = {end};",
            f"{kind} several[{_TILE}];",
            f"for (int k = 0; k < {_TILE}; k++) several[k] = {fold.start};",
            *(_head(index[d], shape[d]) for d in inner),
            "#pragma omp simd",
            each,
            *lines,
            step,
            "}" * (len(inner) + 1),
            f"{each} const {kind} acc = {here}; {target} = {fold.end}; }}",
            "}" * len(loop),
        ]
    )


def _head(name: str, limit: Any) -> str:
    return f"for (int64_t {name} = 0; {name} < {size(limit)}; {name}++) {{"


def _kept_strides(result: Buffer, operand: Operand, gone: Sequence[int]) -> tuple[Any, ...]:
    if len(result.shape) == operand.ndim:
        return tuple(stride for d, stride in enumerate(result.stride) if d not in gone)
    return result.stride


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
    loop = [_head(name, shape[d]) for d, name in enumerate(outer) if name != "0"]
    return "\n".join(["{", *loop, *lines, "}" * len(loop), "}"])


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
        lines = [*heads, f"{kind} acc = 0;", *inner, *reader.lines, f"acc += {text};"]
        lines += [f"{results[0].at(index)} = acc;", "}" * len([*heads, *inner])]
        return "\n".join(["{", *lines, "}"])

    return Block(write, folds=(self,))
