"""Conversions of element-wise operators, casts, and tensors that are made from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import torch

from npu_graph import inference
from npu_graph.c.loops import Index, Map, broadcast
from npu_graph.c.printing import C_TYPES, integer, number
from npu_graph.c.reading import Reader
from npu_graph.conditions import divides_like
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.vendor import Vendor
from patchcore import Skip

__all__ = ["cast", "declare", "element_of"]

aten = torch.ops.aten
prims = torch.ops.prims

# {0}, {1}: operands, plain names or numbers; {f}: the suffix of functions of <math.h>; {t}: the type
_MATH = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1"]
_MATH += ["floor", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"]
_FLOATS = {
    **{f"aten.{name}.default": f"{name}{{f}}({{0}})" for name in _MATH},
    "aten.reciprocal.default": "1 / {0}",
    "aten.round.default": "rint{f}({0})",
    "aten.rsqrt.default": "1 / sqrt{f}({0})",
    "aten.sigmoid.default": "1 / (1 + exp{f}(-{0}))",
    "aten.atan2.default": "atan2{f}({0}, {1})",
    "aten.div.Tensor": "{0} / {1}",
    "aten.div.Scalar": "{0} / {1}",
    "aten.pow.Tensor_Tensor": "pow{f}({0}, {1})",
    "aten.pow.Scalar": "pow{f}({0}, {1})",
}
_NUMBERS = {
    "aten.abs.default": "{0} < 0 ? -{0} : {0} + 0",  # -0 + 0 is 0
    "aten.neg.default": "-{0}",
    "aten.relu.default": "{0} < 0 ? 0 : {0}",
    "aten.sign.default": "({0} > 0) - ({0} < 0)",
    "aten.mul.Tensor": "{0} * {1}",
    "aten.mul.Scalar": "{0} * {1}",
}
_ANY = {
    "aten.maximum.default": "({0} > {1} || {0} != {0}) ? {0} : {1}",
    "aten.minimum.default": "({0} < {1} || {0} != {0}) ? {0} : {1}",
    "aten.logical_not.default": "!{0}",
    "aten.isnan.default": "{0} != {0}",
    "aten.logical_and.default": "{0} && {1}",
    "aten.logical_or.default": "{0} || {1}",
    "aten.logical_xor.default": "!{0} != !{1}",
    **{
        f"aten.{name}.{overload}": f"{{0}} {sign} {{1}}"
        for name, sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items()
        for overload in ("Tensor", "Scalar")
    },
}
_WHOLE = {
    f"aten.bitwise_{name}.{overload}": f"{{0}} {sign} {{1}}"
    for name, sign in {"and": "&", "or": "|", "xor": "^"}.items()
    for overload in ("Tensor", "Scalar")
}
_TESTS = {"logical_not", "isnan", "isinf", "logical_and", "logical_or", "logical_xor"}
_TESTS |= {"eq", "ne", "lt", "le", "gt", "ge"}
_SIGNS = {aten.add: "+", aten.sub: "-"}


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for the C vendor."""
    for templates, condition in ((_FLOATS, _of_floats), (_NUMBERS, None), (_ANY, None), (_WHOLE, None)):
        for name, template in templates.items():
            is_test = name.split(".")[1] in _TESTS
            infer = inference.test if is_test else inference.elementwise
            vendor.conversion(name, when=condition, infer=infer)(_from_template(template))
    vendor.conversion(aten.isinf.default)(_from_template("{0} - {0} != 0 && {0} == {0}"))
    vendor.conversion(aten.bitwise_not.default)(bitwise_not)
    for packet, sign in _SIGNS.items():
        vendor.conversion(packet.Tensor, packet.Scalar, infer=inference.elementwise)(_scaled(sign))
    vendor.conversion(aten.pow.Tensor_Scalar, when=_of_floats)(power)
    vendor.conversion(aten.fmod.Tensor, aten.fmod.Scalar, when=divides_like("C"))(fmod)
    vendor.conversion(aten.remainder.Tensor, aten.remainder.Scalar, when=divides_like("C"))(remainder)
    vendor.conversion(aten.div.Tensor_mode, aten.div.Scalar_mode, when=divides_like("C"))(divide_and_round)
    vendor.conversion(aten.clamp.default, aten.clamp.Tensor)(clamp)
    vendor.conversion(aten.where.self)(where)
    vendor.conversion(prims.convert_element_type.default, aten._to_copy.default, aten.clone.default)(convert)
    vendor.conversion(aten.copy.default)(copy)
    vendor.conversion(aten.full.default, aten.full_like.default)(full)
    vendor.conversion(aten.scalar_tensor.default)(scalar_tensor)
    vendor.conversion(prims.iota.default)(iota)
    vendor.conversion(aten.arange.start_step)(arange)


def element_of(reader: Reader, given: Any, index: Index, dtype: torch.dtype) -> str:
    """Return a plain name for an operand's element, broadcast, or a number of a dtype."""
    if isinstance(given, Operand) and given.is_tensor:
        return reader.let(reader.read(given, broadcast(given, index)), given.dtype)
    return number(given, dtype)


def cast(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """Return an expression in another dtype."""
    if source is target:
        return text
    if source.is_floating_point and target is torch.uint8:
        return f"(uint8_t)(int64_t){text}"  # negative ones wrap around
    return f"({C_TYPES[target]}){text}"


def _made(template: str, operation: Operation, given: Sequence[Any]) -> Map:
    """A map by a template; operands are of one dtype."""
    tensors = [each.dtype for each in given if isinstance(each, Operand) and each.is_tensor]
    dtype = tensors[0] if tensors else operation.dtype
    if operation.dtype.is_floating_point:
        dtype = operation.dtype

    def element(reader: Reader, index: Index) -> str:
        names = []
        for each in given:
            name = element_of(reader, each, index, dtype)
            source = each.dtype if isinstance(each, Operand) and each.is_tensor else dtype
            names.append(name if source is dtype else reader.let(cast(name, source, dtype), dtype))
        return template.format(*names, f="f" if dtype is torch.float32 else "", t=C_TYPES[dtype])

    return Map(element)


def _from_template(template: str) -> Any:
    if "{1}" not in template:
        return lambda operation, self: _made(template, operation, [self])

    def binary(operation: Operation, self: Any, **others: Any) -> Map:
        return _made(template, operation, [self, *others.values()])

    return binary


def _scaled(sign: str) -> Any:
    def scaled_sum(operation: Operation, self: Any, other: Any, alpha: Any) -> Map:
        if not isinstance(alpha, Operand) and alpha == 1:
            return _made(f"{{0}} {sign} {{1}}", operation, [self, other])
        return _made(f"{{0}} {sign} {{2}} * {{1}}", operation, [self, other, alpha])

    return scaled_sum


def bitwise_not(operation: Operation, self: Operand) -> Map:
    """Invert all bits; of a boolean, its only bit."""
    return _made("!{0}" if operation.dtype is torch.bool else "~{0}", operation, [self])


def power(operation: Operation, self: Any, exponent: Any) -> Map:
    """Raise to a power; small whole powers are products, and roots of -0 and -inf are those of torch."""
    products = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "sqrt{f}({0})", 1: "{0}", -1: "1 / {0}"}
    products |= {-0.5: "1 / sqrt{f}({0})", -2: "1 / ({0} * {0})"}
    template = None if isinstance(exponent, Operand) else products.get(exponent)
    return _made(template, operation, [self]) if template else _made("pow{f}({0}, {1})", operation, [self, exponent])


def fmod(operation: Operation, self: Any, other: Any) -> Map:
    """The remainder with the sign of the dividend."""
    is_float = operation.dtype.is_floating_point
    return _made("fmod{f}({0}, {1})" if is_float else "{0} % {1}", operation, [self, other])


def remainder(operation: Operation, self: Any, other: Any) -> Map:
    """The remainder with the sign of the divisor."""
    if not operation.dtype.is_floating_point:
        return _made("remainder_of({0}, {1})", operation, [self, other])
    return _made("remainder_of_floats{f}({0}, {1})", operation, [self, other])


def divide_and_round(operation: Operation, self: Any, other: Any, rounding_mode: Any) -> Map:
    """A quotient, rounded or not."""
    if not operation.dtype.is_floating_point:
        return _made("floor_divide({0}, {1})", operation, [self, other])
    templates = {"floor": "floor_divide_floats{f}({0}, {1})", "trunc": "trunc{f}({0} / {1})"}
    return _made(templates.get(rounding_mode, "{0} / {1}"), operation, [self, other])


def clamp(operation: Operation, self: Operand, min: Any, max: Any) -> Map:
    """The lower bound first, as torch does where it is above the upper one."""

    def element(reader: Reader, index: Index) -> str:
        dtype = operation.dtype
        text = reader.let(element_of(reader, self, index, dtype), dtype)
        for bound, sign in ((min, "<"), (max, ">")):
            if bound is not None:
                limit = reader.let(element_of(reader, bound, index, dtype), dtype)
                text = reader.let(f"({text} {sign} {limit} || {limit} != {limit}) ? {limit} : {text}", dtype)
        return text

    return Map(element)


def where(operation: Operation, condition: Operand, self: Operand, other: Operand) -> Map:
    """Choose one of two values by a condition."""
    return _selected(operation, condition, self, other)


def _selected(operation: Operation, condition: Operand, one: Any, other: Any) -> Map:
    def element(reader: Reader, index: Index) -> str:
        parts = [element_of(reader, each, index, operation.dtype) for each in (condition, one, other)]
        return "{} ? {} : {}".format(*parts)

    return Map(element)


def convert(operation: Operation, **arguments: Any) -> Map:
    """A cast or a copy."""
    return _copied(operation, operation.operands[0])


def copy(operation: Operation, self: Operand, src: Operand) -> Map:
    """The second operand in shape and dtype of the first."""
    return _copied(operation, src)


def _copied(operation: Operation, source: Operand) -> Map:
    def element(reader: Reader, index: Index) -> str:
        return cast(element_of(reader, source, index, source.dtype), source.dtype, operation.dtype)

    return Map(element)


def full(operation: Operation, fill_value: Any, **shape: Any) -> Map:
    """Fill a tensor with one value."""
    return Map(lambda reader, index: number(fill_value, operation.dtype), is_cheap=True)


def scalar_tensor(operation: Operation, s: Any) -> Map:
    """Make a tensor without dimensions."""
    return Map(lambda reader, index: number(s, operation.dtype), is_cheap=True)


def iota(operation: Operation, start: Any, step: Any, **length: Any) -> Map:
    """Make equal steps."""
    return _steps(operation, integer(start), integer(step))


def arange(operation: Operation, start: Any, step: Any, **end: Any) -> Map:
    """Make equal steps, as many as torch makes."""
    kind = torch.float64 if operation.dtype.is_floating_point else torch.int64
    return _steps(operation, *(number(each, kind) for each in (start, step)))


def _steps(operation: Operation, start: str, step: str) -> Map:
    return Map(lambda reader, index: f"({C_TYPES[operation.dtype]})({start} + {step} * {index[0]})", is_cheap=True)


def _of_floats(operation: Operation) -> Union[bool, Skip]:
    return operation.dtype.is_floating_point or Skip("of integers")
