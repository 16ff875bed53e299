"""Conversions of pooling, and of the gradients of upsampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import torch

from npu_graph.c.loops import Block, Index
from npu_graph.c.memory import Buffer
from npu_graph.c.printing import number, size
from npu_graph.c.reading import Reader, Writer
from npu_graph.conditions import has_floats, has_whole_windows
from npu_graph.operations.options import AveragePooling, MaxPooling, NearestUpsampling, with_options
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.max_pool2d_with_indices.default, when=has_floats)
    @with_options(MaxPooling)
    def max_pool(operation: Operation, self: Operand, options: MaxPooling) -> Block:
        (kh, kw), (sh, sw), (ph, pw) = options.window
        dh, dw = options.gaps
        height, width = map(size, self.shape[-2:])

        def write(writer: Writer, results: Sequence[Optional[Buffer]]) -> str:
            def body(reader: Reader, index: Index) -> str:
                x = reader.read(self, [*index[:-2], "y", "x"])
                values, places = results
                assert values is not None
                found = f"{places.at(index)} = at;" if places is not None else ""
                return f"""double best = -INFINITY; int64_t at = -1;
for (int64_t k = 0; k < {kh}; k++) for (int64_t l = 0; l < {kw}; l++) {{
const int64_t y = {index[-2]} * {sh} - {ph} + k * {dh}, x = {index[-1]} * {sw} - {pw} + l * {dw};
if (y < 0 || y >= {height} || x < 0 || x >= {width}) continue;
{_joined(reader)}const double value = {x};
if (at < 0 || value > best || value != value) {{ best = value; at = y * {width} + x; }}
}}
{values.at(index)} = best; {found}"""

            return writer.loops(operation.shape, body, simd=False)

        return Block(write)

    @vendor.conversion(aten.avg_pool2d.default, when=has_whole_windows)
    @with_options(AveragePooling)
    def average_pool(operation: Operation, self: Operand, options: AveragePooling) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            def body(reader: Reader, index: Index) -> str:
                head, divisor = _averaged(index, self.shape, options)
                return f"""{head}double acc = 0;
for (int64_t y = top; y < bottom; y++) for (int64_t x = left; x < right; x++) acc += {reader.read(self, _at(index))};
{results[0].at(index)} = acc / {divisor};"""

            return writer.loops(operation.shape, body, simd=False)

        return Block(write)

    @vendor.conversion(aten.avg_pool2d_backward.default, when=has_whole_windows)
    @with_options(AveragePooling)
    def average_pool_backward(
        operation: Operation, grad_output: Operand, self: Operand, options: AveragePooling
    ) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            result = results[0]

            def body(reader: Reader, index: Index) -> str:
                head, divisor = _averaged(index, self.shape, options)
                return f"""{head}const double share = {reader.read(grad_output, index)} / (double){divisor};
for (int64_t y = top; y < bottom; y++) for (int64_t x = left; x < right; x++) {result.at(_at(index))} += share;"""

            return _collected(writer, result, grad_output, body)

        return Block(write)

    @vendor.conversion(aten._adaptive_avg_pool2d.default, when=has_floats)
    def adaptive_pool(operation: Operation, self: Operand, output_size: Sequence[Any]) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            def body(reader: Reader, index: Index) -> str:
                return f"""{_cell(index, self.shape, operation.shape)}double acc = 0;
for (int64_t y = top; y < bottom; y++) for (int64_t x = left; x < right; x++) acc += {reader.read(self, _at(index))};
{results[0].at(index)} = acc / (double)((bottom - top) * (right - left));"""

            return writer.loops(operation.shape, body, simd=False)

        return Block(write)

    @vendor.conversion(aten._adaptive_avg_pool2d_backward.default, when=has_floats)
    def adaptive_pool_backward(operation: Operation, grad_output: Operand, self: Operand) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            result = results[0]

            def body(reader: Reader, index: Index) -> str:
                return f"""{_cell(index, self.shape, grad_output.shape)}
const double share = {reader.read(grad_output, index)} / (double)((bottom - top) * (right - left));
for (int64_t y = top; y < bottom; y++) for (int64_t x = left; x < right; x++) {result.at(_at(index))} += share;"""

            return _collected(writer, result, grad_output, body)

        return Block(write)

    @vendor.conversion(aten.upsample_nearest2d_backward.default, when=has_floats)
    @with_options(NearestUpsampling)
    def upsample_nearest_backward(operation: Operation, grad_output: Operand, options: NearestUpsampling) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            def body(reader: Reader, index: Index) -> str:
                sources = [
                    _source(place, n, count, scale)
                    for place, n, count, scale in zip(
                        index[-2:], operation.shape[-2:], grad_output.shape[-2:], (options.scales_h, options.scales_w)
                    )
                ]
                return f"{results[0].at([*index[:-2], *sources])} += {reader.read(grad_output, index)};"

            return _collected(writer, results[0], grad_output, body)

        return Block(write)


def _joined(reader: Reader) -> str:
    """The statements of a reader, for a loop of its own."""
    lines, reader.lines = reader.lines, []
    return "".join(f"{line}\n" for line in lines)


def _at(index: Index) -> list[str]:
    return [*index[:-2], "y", "x"]


def _collected(writer: Writer, result: Buffer, grad: Operand, body: Callable[[Reader, Index], str]) -> str:
    """Statements for each element of a gradient, which add to zeros in the same image."""
    zeros = writer.loops(result.shape, lambda reader, index: f"{result.at(index)} = 0;")
    return f"{zeros}\n{writer.loops(grad.shape, body, independent=grad.ndim - 2)}"


def _averaged(index: Index, shape: Sequence[Any], options: AveragePooling) -> tuple[str, str]:
    """The edges of a window inside the image, and the divisor of its sum."""
    (kh, kw), (sh, sw), (ph, pw) = options.window
    height, width = map(size, shape[-2:])
    head = f"""const int64_t y0 = {index[-2]} * {sh} - {ph}, y1 = smaller(y0 + {kh}, {height} + {ph});
const int64_t x0 = {index[-1]} * {sw} - {pw}, x1 = smaller(x0 + {kw}, {width} + {pw});
const int64_t top = larger(y0, 0), bottom = smaller(y1, {height});
const int64_t left = larger(x0, 0), right = smaller(x1, {width});
"""
    if options.divisor_override is not None:
        return head, str(options.divisor_override)
    return head, "((y1 - y0) * (x1 - x0))" if options.count_include_pad else "((bottom - top) * (right - left))"


def _cell(index: Index, image: Sequence[Any], cells: Sequence[Any]) -> str:
    """The edges of a cell, as those of neighbours cover the image."""
    lines = []
    for place, n, count, (first, last) in zip(
        index[-2:], map(size, image[-2:]), map(size, cells[-2:]), (("top", "bottom"), ("left", "right"))
    ):
        lines.append(f"const int64_t {first} = {place} * {n} / {count};\n")
        lines.append(f"const int64_t {last} = (({place} + 1) * {n} + {count} - 1) / {count};\n")
    return "".join(lines)


def _source(place: str, n: Any, count: Any, scale: Any) -> str:
    """The nearest element, in single precision as torch computes it."""
    ratio = f"{size(n)} / (float){size(count)}" if scale is None else f"1 / {number(scale, torch.float64)}"
    return f"smaller((int64_t)({place} * (float)({ratio})), {size(n)} - 1)"
