"""Conversions of convolutions and of their gradients, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import sizes
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.convolution.default, when=_has_floats)
    def convolution(
        operation: Operation,
        input: Operand,
        weight: Operand,
        bias: Optional[Operand],
        stride: Sequence[int],
        padding: Sequence[Any],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[Any],
        groups: int,
    ) -> str:
        window = _window(stride, padding, dilation, groups)
        if transposed:
            return f"numerics.transposed_convolution({input}, {weight}, {bias}, {window}, {sizes(output_padding)})"
        return f"numerics.convolution({input}, {weight}, {bias}, {window})"

    @vendor.conversion(aten.convolution_backward.default, when=_has_floats)
    def convolution_backward(
        operation: Operation,
        grad_output: Operand,
        input: Operand,
        weight: Operand,
        bias_sizes: Any,
        stride: Sequence[int],
        padding: Sequence[Any],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[Any],
        groups: int,
        output_mask: Sequence[bool],
    ) -> str:
        window = _window(stride, padding, dilation, groups)
        name = "transposed_convolution_backward" if transposed else "convolution_backward"
        return f"numerics.{name}({grad_output}, {input}, {weight}, {window}, {tuple(output_mask)})"


def _window(stride: Sequence[Any], padding: Sequence[Any], dilation: Sequence[Any], groups: int) -> str:
    return f"numerics.Window({sizes(stride)}, {sizes(padding)}, {sizes(dilation)}, {groups})"


def _has_floats(operation: Operation) -> bool:
    return operation.dtype.is_floating_point
