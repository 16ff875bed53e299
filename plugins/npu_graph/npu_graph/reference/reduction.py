"""Conversions of reductions and scans."""

from __future__ import annotations

from typing import Any

import torch

from npu_graph import inference
from npu_graph.conditions import has_dimensions
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import axes, dtype_name
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.mean.default)
    def add_up(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> str:
        function = "np.sum" if operation.target in (aten.sum.dim_IntList, aten.sum.default) else "np.mean"
        axis = axes(operation, dim)
        return f"{function}({self}, axis={axis}, dtype={dtype_name(operation.dtype)}, keepdims={keepdim})"

    @vendor.conversion(aten.prod.dim_int, aten.prod.default)
    def product(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> str:
        return f"np.prod({self}, axis={axes(operation, dim)}, dtype={dtype_name(operation.dtype)}, keepdims={keepdim})"

    for operator, function in {aten.amax.default: "np.max", aten.amin.default: "np.min"}.items():
        _declare_extreme(vendor, operator, function)
    for operator, function in {aten.max.default: "np.max", aten.min.default: "np.min"}.items():
        _declare_extreme(vendor, operator, function)
    for operator, function in {aten.max.dim: "max", aten.min.dim: "min"}.items():
        _declare_extreme_with_place(vendor, operator, function)
    for operator, function in {aten.argmax.default: "np.argmax", aten.argmin.default: "np.argmin"}.items():
        _declare_place(vendor, operator, function)

    @vendor.conversion(aten.any.default, aten.any.dim, aten.any.dims)
    def any_of(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> str:
        return cast_to_bytes(operation, f"np.any({self}, axis={axes(operation, dim)}, keepdims={keepdim})")

    @vendor.conversion(aten.cumsum.default, when=has_dimensions)
    def cumulative_sum(operation: Operation, self: Operand, dim: int) -> str:
        return f"np.cumsum({self}, axis={dim}, dtype={dtype_name(operation.dtype)})"


def cast_to_bytes(operation: Operation, text: str) -> str:
    """Cast to bytes: a truth value of bytes is a byte in torch."""
    return f"{text}.astype(np.uint8)" if operation.dtype is torch.uint8 else text


def _declare_extreme(vendor: Vendor, operator: Any, function: str) -> None:
    @vendor.conversion(operator, infer=inference.reduction)
    def extreme(operation: Operation, self: Operand, dim: Any = None, keepdim: bool = False) -> str:
        return f"{function}({self}, axis={axes(operation, dim)}, keepdims={keepdim})"


def _declare_extreme_with_place(vendor: Vendor, operator: Any, which: str) -> None:
    @vendor.conversion(operator, when=has_dimensions)
    def extreme_with_place(operation: Operation, self: Operand, dim: int, keepdim: bool) -> str:
        options = f"axis={dim}, keepdims={keepdim}"
        return f"(np.{which}({self}, {options}), np.arg{which}({self}, {options}))"


def _declare_place(vendor: Vendor, operator: Any, function: str) -> None:
    @vendor.conversion(operator, when=has_dimensions)
    def place(operation: Operation, self: Operand, dim: Any, keepdim: bool) -> str:
        return f"{function}({self}, axis={dim}, keepdims={keepdim})"
