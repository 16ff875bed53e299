"""Conversions of pooling, and of the gradients of what enlarges images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph.conditions import has_floats, has_whole_windows
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import sizes
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.max_pool2d_with_indices.default, when=has_floats)
    def max_pool(
        operation: Operation,
        self: Operand,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> str:
        kernel, stride, padding, dilation = _pairs(kernel_size, stride or kernel_size, padding, dilation)
        return f"numerics.max_pool({self}, {kernel}, {stride}, {padding}, {dilation}, {ceil_mode})"

    @vendor.conversion(aten.avg_pool2d.default, when=has_whole_windows)
    def average_pool(
        operation: Operation,
        self: Operand,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Optional[int],
    ) -> str:
        kernel, stride, padding = _pairs(kernel_size, stride or kernel_size, padding)
        return f"numerics.average_pool({self}, {kernel}, {stride}, {padding}, {count_include_pad}, {divisor_override})"

    @vendor.conversion(aten.avg_pool2d_backward.default, when=has_whole_windows)
    def average_pool_backward(
        operation: Operation,
        grad_output: Operand,
        self: Operand,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Optional[int],
    ) -> str:
        kernel, stride, padding = _pairs(kernel_size, stride or kernel_size, padding)
        options = f"{kernel}, {stride}, {padding}, {count_include_pad}, {divisor_override}"
        return f"numerics.average_pool_backward({grad_output}, {self}.shape, {options})"

    @vendor.conversion(aten._adaptive_avg_pool2d.default, when=has_floats)
    def adaptive_pool(operation: Operation, self: Operand, output_size: Sequence[Any]) -> str:
        return f"numerics.adaptive_pool({self}, {sizes(output_size)})"

    @vendor.conversion(aten._adaptive_avg_pool2d_backward.default, when=has_floats)
    def adaptive_pool_backward(operation: Operation, grad_output: Operand, self: Operand) -> str:
        return f"numerics.adaptive_pool_backward({grad_output}, {self}.shape)"

    @vendor.conversion(aten.upsample_nearest2d_backward.default, when=has_floats)
    def upsample_nearest_backward(
        operation: Operation,
        grad_output: Operand,
        output_size: Sequence[Any],
        input_size: Sequence[Any],
        scales_h: Optional[float],
        scales_w: Optional[float],
    ) -> str:
        return f"numerics.nearest_backward({grad_output}, {sizes(input_size)}, ({scales_h}, {scales_w}))"


def _pairs(*given: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(each) * 2 if len(each) == 1 else tuple(each) for each in given]
