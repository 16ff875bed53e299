"""Conversions of convolutions and of their gradients, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph.operations.options import Convolution, with_options
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import sizes
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.convolution.default, when=_has_floats)
    @with_options(Convolution)
    def convolution(
        operation: Operation,
        input: Operand,
        weight: Operand,
        bias: Optional[Operand],
        options: Convolution,
    ) -> str:
        arguments = f"{input}, {weight}, {bias}, {_window(options)}"
        if options.transposed:
            return f"numerics.transposed_convolution({arguments}, {sizes(options.output_padding)})"
        return f"numerics.convolution({arguments})"

    @vendor.conversion(aten.convolution_backward.default, when=_has_floats)
    @with_options(Convolution)
    def convolution_backward(
        operation: Operation,
        grad_output: Operand,
        input: Operand,
        weight: Operand,
        bias_sizes: Any,
        options: Convolution,
        output_mask: Sequence[bool],
    ) -> str:
        window = _window(options)
        name = "transposed_convolution_backward" if options.transposed else "convolution_backward"
        return f"numerics.{name}({grad_output}, {input}, {weight}, {window}, {tuple(output_mask)})"


def _window(options: Convolution) -> str:
    geometry = f"{sizes(options.stride)}, {sizes(options.padding)}, {sizes(options.dilation)}"
    return f"numerics.Window({geometry}, {options.groups})"


def _has_floats(operation: Operation) -> bool:
    return operation.dtype.is_floating_point
