"""Conversions of pooling, and of the gradients of upsampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npu_graph.conditions import has_floats, has_whole_windows
from npu_graph.operations.options import AveragePooling, MaxPooling, NearestUpsampling, with_options
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import sizes
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.max_pool2d_with_indices.default, when=has_floats)
    @with_options(MaxPooling)
    def max_pool(operation: Operation, self: Operand, options: MaxPooling) -> str:
        kernel, stride, padding = options.window
        return f"numerics.max_pool({self}, {kernel}, {stride}, {padding}, {options.gaps}, {options.ceil_mode})"

    @vendor.conversion(aten.avg_pool2d.default, when=has_whole_windows)
    @with_options(AveragePooling)
    def average_pool(operation: Operation, self: Operand, options: AveragePooling) -> str:
        return f"numerics.average_pool({self}, {_averaged(options)})"

    @vendor.conversion(aten.avg_pool2d_backward.default, when=has_whole_windows)
    @with_options(AveragePooling)
    def average_pool_backward(
        operation: Operation, grad_output: Operand, self: Operand, options: AveragePooling
    ) -> str:
        return f"numerics.average_pool_backward({grad_output}, {self}.shape, {_averaged(options)})"

    @vendor.conversion(aten._adaptive_avg_pool2d.default, when=has_floats)
    def adaptive_pool(operation: Operation, self: Operand, output_size: Sequence[Any]) -> str:
        return f"numerics.adaptive_pool({self}, {sizes(output_size)})"

    @vendor.conversion(aten._adaptive_avg_pool2d_backward.default, when=has_floats)
    def adaptive_pool_backward(operation: Operation, grad_output: Operand, self: Operand) -> str:
        return f"numerics.adaptive_pool_backward({grad_output}, {self}.shape)"

    @vendor.conversion(aten.upsample_nearest2d_backward.default, when=has_floats)
    @with_options(NearestUpsampling)
    def upsample_nearest_backward(operation: Operation, grad_output: Operand, options: NearestUpsampling) -> str:
        scales = f"({options.scales_h}, {options.scales_w})"
        return f"numerics.nearest_backward({grad_output}, {sizes(options.input_size)}, {scales})"


def _averaged(options: AveragePooling) -> str:
    kernel, stride, padding = options.window
    return f"{kernel}, {stride}, {padding}, {options.count_include_pad}, {options.divisor_override}"
