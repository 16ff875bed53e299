"""Conversions of convolutions and of their gradients, in one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph.c.loops import Block, Index
from npu_graph.c.memory import Buffer
from npu_graph.c.printing import C_TYPES, size
from npu_graph.c.reading import Reader, Writer
from npu_graph.operations.options import Convolution, with_options
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.vendor import Vendor
from patchcore import Skip

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""

    @vendor.conversion(aten.convolution.default, when=_is_known)
    @with_options(Convolution)
    def convolution(
        operation: Operation,
        input: Operand,
        weight: Operand,
        bias: Optional[Operand],
        options: Convolution,
    ) -> Block:
        def write(writer: Writer, results: Sequence[Buffer]) -> str:
            result, given, kernel = results[0], writer.row_major(input), writer.row_major(weight)
            image, places = (result, given) if options.transposed else (given, result)
            window, head = _window(writer, image, places, weight, options)
            function = "spread" if options.transposed else "convolve"
            call = _call(function, result, f"&{window}, {given.pointer}, {kernel.pointer}, {result.pointer}")
            if bias is None:
                return f"{head}\n{call}"

            def add(reader: Reader, index: Index) -> str:
                return f"{result.at(index)} += {reader.read(bias, [index[1]])};"

            return f"{head}\n{call}\n{writer.loops(result.shape, add)}"

        return Block(write)

    @vendor.conversion(aten.convolution_backward.default, when=_is_known)
    @with_options(Convolution)
    def convolution_backward(
        operation: Operation,
        grad_output: Operand,
        input: Operand,
        weight: Operand,
        bias_sizes: Any,
        options: Convolution,
        output_mask: Sequence[bool],
    ) -> Block:
        def write(writer: Writer, results: Sequence[Optional[Buffer]]) -> str:
            grad, given, kernel = (writer.row_major(each) for each in (grad_output, input, weight))
            image, places = (grad, given) if options.transposed else (given, grad)
            window, head = _window(writer, image, places, weight, options)
            texts = [head]
            of_input, of_weight, of_bias = results
            if of_input is not None:
                function = "convolve" if options.transposed else "spread"
                arguments = f"&{window}, {grad.pointer}, {kernel.pointer}, {of_input.pointer}"
                texts.append(_call(function, of_input, arguments))
            if of_weight is not None:
                arguments = f"&{window}, {places.pointer}, {image.pointer}, {of_weight.pointer}"
                texts.append(_call("weigh", of_weight, arguments))
            if of_bias is not None:
                texts.append(_summed(writer, grad, of_bias))
            return "\n".join(texts)

        return Block(write)


def _call(function: str, buffer: Buffer, arguments: str) -> str:
    return f"if ({function}_{C_TYPES[buffer.dtype]}({arguments})) goto no_memory;"


def _window(writer: Writer, image: Buffer, places: Buffer, weight: Operand, options: Convolution) -> tuple[str, str]:
    """The name of a window, and its declaration. Dimensions that are missing come first, with one element."""
    name = writer.unique("window")
    rank = len(image.shape) - 2

    def three(given: Sequence[Any], filler: int = 1) -> str:
        listed = [*given] * (rank if len(given) == 1 else 1)
        return "{" + ", ".join(map(size, [filler] * (3 - rank) + listed)) + "}"

    fields = {
        "n": size(image.shape[0]),
        "groups": str(options.groups),
        "in": f"{size(image.shape[1])} / {options.groups}",
        "out": f"{size(places.shape[1])} / {options.groups}",
        "image": three(image.shape[2:]),
        "kernel": three(weight.shape[2:]),
        "places": three(places.shape[2:]),
        "stride": three(options.stride),
        "padding": three(options.padding, 0),
        "dilation": three(options.dilation),
    }
    listed = ", ".join(f".{field} = {value}" for field, value in fields.items())
    return name, f"const Window {name} = {{{listed}}};"


def _summed(writer: Writer, grad: Buffer, result: Buffer) -> str:
    """The sums over everything but channels."""
    n, channels, *image = grad.shape
    each, channel, place = (writer.unique(stem) for stem in ("each", "channel", "place"))
    count = " * ".join(map(size, image)) or "1"
    return (
        f"for (int64_t {channel} = 0; {channel} < {size(channels)}; {channel}++) {{\n"
        f"double acc = 0;\n"
        f"for (int64_t {each} = 0; {each} < {size(n)}; {each}++)\n"
        f"for (int64_t {place} = 0; {place} < {count}; {place}++)\n"
        f"acc += {grad.pointer}[({each} * {size(channels)} + {channel}) * {count} + {place}];\n"
        f"{result.pointer}[{channel}] = acc;\n}}"
    )


def _is_known(operation: Operation) -> Any:
    """A condition: floats, batches of images of one to three dimensions, padding that is known."""
    if not operation.dtype.is_floating_point:
        return Skip("integers")
    arguments = operation.arguments
    if not 3 <= arguments["input"].ndim <= 5:
        return Skip("not one to three dimensions")
    is_known = all(isinstance(n, int) for n in arguments["padding"])
    return is_known or Skip("padding that is not known before it runs")
