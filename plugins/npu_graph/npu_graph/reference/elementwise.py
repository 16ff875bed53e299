"""Conversions of element-wise operators, casts, and tensors that are made from nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import torch

from npu_graph import inference
from npu_graph.conditions import divides_like
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference.text import dtype_name, rounded, sizes, value
from npu_graph.vendor import Vendor
from patchcore import Skip

__all__ = ["declare"]

aten = torch.ops.aten
prims = torch.ops.prims

UNARY = {
    aten.abs.default: "np.abs({})",
    aten.acos.default: "np.arccos({})",
    aten.acosh.default: "np.arccosh({})",
    aten.asin.default: "np.arcsin({})",
    aten.asinh.default: "np.arcsinh({})",
    aten.atan.default: "np.arctan({})",
    aten.atanh.default: "np.arctanh({})",
    aten.bitwise_not.default: "np.invert({})",
    aten.ceil.default: "np.ceil({})",
    aten.cos.default: "np.cos({})",
    aten.cosh.default: "np.cosh({})",
    aten.erf.default: "numerics.erf({})",
    aten.exp.default: "np.exp({})",
    aten.exp2.default: "np.exp2({})",
    aten.expm1.default: "np.expm1({})",
    aten.floor.default: "np.floor({})",
    aten.log.default: "np.log({})",
    aten.log10.default: "np.log10({})",
    aten.log1p.default: "np.log1p({})",
    aten.log2.default: "np.log2({})",
    aten.logical_not.default: "np.logical_not({})",
    aten.neg.default: "np.negative({})",
    aten.reciprocal.default: "np.reciprocal({})",
    aten.relu.default: "np.maximum({0}, {0}.dtype.type(0))",
    aten.round.default: "np.rint({})",
    aten.rsqrt.default: "np.reciprocal(np.sqrt({}))",
    aten.sigmoid.default: "numerics.sigmoid({})",
    aten.sign.default: "numerics.sign({})",
    aten.sin.default: "np.sin({})",
    aten.sinh.default: "np.sinh({})",
    aten.sqrt.default: "np.sqrt({})",
    aten.tan.default: "np.tan({})",
    aten.tanh.default: "np.tanh({})",
    aten.trunc.default: "np.trunc({})",
}
TESTS = {aten.isinf.default: "np.isinf({})", aten.isnan.default: "np.isnan({})"}
BINARY = {
    aten.atan2.default: "np.arctan2",
    aten.bitwise_and.Scalar: "np.bitwise_and",
    aten.bitwise_and.Tensor: "np.bitwise_and",
    aten.bitwise_or.Scalar: "np.bitwise_or",
    aten.bitwise_or.Tensor: "np.bitwise_or",
    aten.bitwise_xor.Scalar: "np.bitwise_xor",
    aten.bitwise_xor.Tensor: "np.bitwise_xor",
    aten.div.Scalar: "np.divide",
    aten.div.Tensor: "np.divide",
    aten.maximum.default: "np.maximum",
    aten.minimum.default: "np.minimum",
    aten.mul.Scalar: "np.multiply",
    aten.mul.Tensor: "np.multiply",
}
COMPARISONS = {
    aten.eq: "np.equal",
    aten.ge: "np.greater_equal",
    aten.gt: "np.greater",
    aten.le: "np.less_equal",
    aten.lt: "np.less",
    aten.ne: "np.not_equal",
}
LOGICAL = {
    aten.logical_and.default: "np.logical_and",
    aten.logical_or.default: "np.logical_or",
    aten.logical_xor.default: "np.logical_xor",
}
SUMS = {aten.add: "np.add", aten.sub: "np.subtract"}
DIVISIONS = {aten.fmod: "np.fmod", aten.remainder: "np.remainder"}


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""
    for operator, template in {**UNARY, **TESTS}.items():
        _declare_unary(vendor, operator, template)
    for operator, function in BINARY.items():
        _declare_binary(vendor, operator, function)
    for packet, function in COMPARISONS.items():
        _declare_binary(vendor, packet.Tensor, function)
        _declare_binary(vendor, packet.Scalar, function)
    for operator, function in LOGICAL.items():
        _declare_binary(vendor, operator, function)
    for packet, function in SUMS.items():
        _declare_sum(vendor, packet.Tensor, function)
        _declare_sum(vendor, packet.Scalar, function)
    for packet, function in DIVISIONS.items():
        _declare_binary(vendor, packet.Tensor, function, when=divides_like("NumPy"))
        _declare_binary(vendor, packet.Scalar, function, when=divides_like("NumPy"))
    vendor.conversion(aten.div.Tensor_mode, aten.div.Scalar_mode, when=divides_like("NumPy"))(divide_and_round)
    vendor.conversion(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, when=_power_of_floats)(power)
    vendor.conversion(aten.pow.Scalar, when=_power_of_floats)(power)
    vendor.conversion(aten.clamp.default, aten.clamp.Tensor, infer=inference.elementwise)(clamp)
    vendor.conversion(aten.where.self)(where)
    vendor.conversion(prims.convert_element_type.default, aten._to_copy.default)(convert)
    vendor.conversion(aten.clone.default)(clone)
    vendor.conversion(aten.copy.default)(copy)
    vendor.conversion(aten.full.default)(full)
    vendor.conversion(aten.full_like.default)(full_like)
    vendor.conversion(aten.scalar_tensor.default)(scalar_tensor)
    vendor.conversion(prims.iota.default)(iota)
    vendor.conversion(aten.arange.start_step)(arange)


def _declare_unary(vendor: Vendor, operator: Any, template: str) -> None:
    infer = inference.test if operator in TESTS or operator is aten.logical_not.default else inference.elementwise

    @vendor.conversion(operator, infer=infer)
    def unary(operation: Operation, self: Operand) -> str:
        return template.format(self)


def _declare_binary(vendor: Vendor, operator: Any, function: str, when: Any = None) -> None:
    is_test = function in {*COMPARISONS.values(), *LOGICAL.values()}
    packet = operator.overloadpacket

    @vendor.conversion(operator, when=when, infer=inference.test if is_test else inference.elementwise)
    def binary(operation: Operation, self: Any, other: Any) -> str:
        return f"{function}({_pair(self, other, rounded if is_test or packet in DIVISIONS else value)})"


def _declare_sum(vendor: Vendor, operator: Any, function: str) -> None:
    @vendor.conversion(operator, infer=inference.elementwise)
    def scaled_sum(operation: Operation, self: Any, other: Any, alpha: Any) -> str:
        dtype = operation.dtype
        if isinstance(alpha, Operand) or alpha != 1:
            return f"{function}({value(self, dtype)}, np.multiply({value(alpha, dtype)}, {value(other, dtype)}))"
        return f"{function}({_pair(self, other)})"


def _pair(one: Any, other: Any, text: Callable[[Any, torch.dtype], str] = value) -> str:
    """Two operands of one dtype, that of the tensor among them."""
    dtype = next(each.dtype for each in (one, other) if isinstance(each, Operand) and each.is_tensor)
    return f"{text(one, dtype)}, {text(other, dtype)}"


def _power_of_floats(operation: Operation) -> Union[bool, Skip]:
    return operation.dtype.is_floating_point or Skip("a power of integers")


def divide_and_round(operation: Operation, self: Any, other: Any, rounding_mode: Any) -> str:
    """Division, rounded or not."""
    if rounding_mode == "floor":
        return f"np.floor_divide({_pair(self, other, rounded)})"
    quotient = f"np.divide({_pair(self, other)})"
    return f"np.trunc({quotient})" if rounding_mode == "trunc" else quotient


def power(operation: Operation, self: Any, exponent: Any) -> str:
    """A power of floats."""
    base = value(self, operation.dtype)
    # as torch has them, which tells for -0 and -inf
    special = {2: f"np.square({base})", 0.5: f"np.sqrt({base})", -0.5: f"np.reciprocal(np.sqrt({base}))"}
    if not isinstance(exponent, Operand) and exponent in special:
        return special[exponent]
    return f"np.power({value(self, operation.dtype)}, {value(exponent, operation.dtype)})"


def clamp(operation: Operation, self: Operand, min: Any, max: Any) -> str:
    """The lower bound first, as torch does where it is above the upper one."""
    text = str(self)
    if min is not None:
        text = f"np.maximum({text}, {value(min, operation.dtype)})"
    return text if max is None else f"np.minimum({text}, {value(max, operation.dtype)})"


def where(operation: Operation, condition: Operand, self: Operand, other: Operand) -> str:
    """One or the other."""
    return f"np.where({condition}, {self}, {other})"


def convert(operation: Operation, **arguments: Any) -> str:
    """A cast; the result is a copy."""
    return f"{operation.operands[0]}.astype({dtype_name(operation.dtype)})"


def clone(operation: Operation, self: Operand) -> str:
    """A copy."""
    return f"np.array({self})"


def copy(operation: Operation, self: Operand, src: Operand) -> str:
    """The second operand in shape and dtype of the first."""
    return f"np.broadcast_to({src}, {self}.shape).astype({dtype_name(operation.dtype)})"


def full(operation: Operation, size: Any, fill_value: Any) -> str:
    """One value everywhere."""
    return f"np.full({sizes(size)}, {value(fill_value, operation.dtype)})"


def full_like(operation: Operation, self: Operand, fill_value: Any) -> str:
    """One value everywhere, in the shape of another tensor."""
    return f"np.full({self}.shape, {value(fill_value, operation.dtype)})"


def scalar_tensor(operation: Operation, s: Any) -> str:
    """A tensor of no dimensions."""
    return f"np.array({value(s, operation.dtype)})"


def iota(operation: Operation, length: Any, start: Any, step: Any) -> str:
    """Equal steps."""
    return f"({start} + {step} * np.arange({length})).astype({dtype_name(operation.dtype)})"


def arange(operation: Operation, start: Any, end: Any, step: Any) -> str:
    """Equal steps, as many as torch counts."""
    (length,) = operation.shape
    counted = length if isinstance(length, int) else f"numerics.count({start}, {end}, {step})"
    kind = "float" if operation.dtype.is_floating_point else "int"
    return f"({kind}({start}) + {kind}({step}) * np.arange({counted})).astype({dtype_name(operation.dtype)})"
