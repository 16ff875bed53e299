"""Conversions of element-wise operators."""

import torch

import patchcore as pc
from acme_graph.text import product, spread
from npu_graph import inference

aten = torch.ops.aten

UNARY = {
    aten.abs.default: "abs({})",
    aten.exp.default: "exp({})",
    aten.log.default: "log({})",
    aten.logical_not.default: "eq({}, 0.0)",
    aten.neg.default: "neg({})",
    aten.reciprocal.default: "div(1.0, {})",
    aten.relu.default: "max({}, 0.0)",
    aten.rsqrt.default: "rsqrt({})",
    aten.sigmoid.default: "sigmoid({})",
    aten.sqrt.default: "sqrt({})",
    aten.tanh.default: "tanh({})",
}
BINARY = {
    aten.add: "add({}, {})",
    aten.sub: "sub({}, {})",
    aten.mul: "mul({}, {})",
    aten.div: "div({}, {})",
    aten.maximum: "max({}, {})",
    aten.minimum: "min({}, {})",
}
COMPARISONS = {
    aten.eq: "eq({}, {})",
    aten.ne: "eq(eq({}, {}), 0.0)",
    aten.lt: "lt({}, {})",
    aten.le: "le({}, {})",
    aten.gt: "lt({1}, {0})",
    aten.ge: "le({1}, {0})",
}


def declare(vendor):
    """Declare the conversions of this module."""
    for operator, template in UNARY.items():
        declare_unary(vendor, operator, template)
    for operator, template in {**BINARY, **COMPARISONS}.items():
        declare_binary(vendor, operator, template)

    @vendor.conversion(aten.where.self)
    def where(operation, condition, self, other):
        operands = (spread(each, operation.shape) for each in (condition, self, other))
        return f"select({', '.join(operands)})"

    @vendor.conversion(aten.pow.Tensor_Scalar, when=is_square)
    def square(operation, self, exponent):
        return f"mul({self}, {self})"

    @vendor.conversion("prims.convert_element_type.default")
    def convert(operation, a, dtype):
        return f"eq(eq({a}, 0.0), 0.0)" if dtype is torch.bool else str(a)

    @vendor.conversion(aten.full.default)
    def full(operation, size, fill_value):
        return f"fill({fill_value}, {product(operation.shape)})"

    @vendor.conversion(aten.scalar_tensor.default)
    def scalar_tensor(operation, s):
        return f"fill({s}, 1)"


def declare_unary(vendor, operator, template):
    """Declare an operator of one tensor."""

    @vendor.conversion(operator)
    def unary(operation, self):
        return template.format(self)


def declare_binary(vendor, packet, template):
    """Declare an operator of two, of which one may be a number; of all its overloads."""
    if packet in COMPARISONS:
        conditions = {"infer": inference.test}
    else:
        conditions = {"infer": inference.elementwise, "when": is_of_floats}

    @vendor.conversion(packet, **conditions)
    def binary(operation, self, other):
        return template.format(spread(self, operation.shape), spread(other, operation.shape))


def is_of_floats(operation):
    """A condition: what torch does with two booleans is no arithmetic."""
    return operation.dtype.is_floating_point or pc.Skip("arithmetic of booleans")


def is_square(operation):
    """A condition: of powers, the Acme 1 has squares."""
    return operation.arguments["exponent"] == 2 or pc.Skip("a power that is no square")
