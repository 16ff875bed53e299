"""Operators on one element at a time: of one operand, of two, of more."""

from __future__ import annotations

from typing import Any

import torch

from npu_graph.conformance.cases.case import EVERY, FLOATS, INTEGERS, NUMBERS, Case

__all__ = ["BINARY", "UNARY"]

aten = torch.ops.aten
#: No elements, no dimensions, size one, memory with gaps.
EDGES = "edges"


def _unary(packet: Any, dtypes: tuple[str, ...] = FLOATS) -> list[Case]:
    overload = packet.default
    return [
        Case(str(overload), lambda t: overload(t.x), dtypes),
        Case(str(overload), lambda t: [overload(each) for each in (t.empty, t.zero_dim, t.gaps)], dtypes, EDGES),
    ]


def _binary(overload: Any, dtypes: tuple[str, ...] = FLOATS) -> list[Case]:
    return [
        Case(str(overload), lambda t: overload(t.x, t.y), dtypes),
        Case(str(overload), lambda t: overload(t.x, t.row), dtypes, "broadcast"),
        Case(str(overload), lambda t: overload(t.zero_dim, t.turned), dtypes, "zero dimensions, turned"),
        Case(
            str(overload),
            lambda t: [overload(t.empty, t.row), overload(t.zero_dim, t.one), overload(t.gaps, t.one)],
            dtypes,
            EDGES,
        ),
    ]


def _with_number(overload: Any, number: int, dtypes: tuple[str, ...]) -> Case:
    return Case(str(overload), lambda t: overload(t.x, number), dtypes)


UNARY = [
    *(
        case
        for name in [
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log"),
            *("log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal"),
            *("ceil", "floor", "round", "trunc", "isinf", "isnan"),
        ]
        for case in _unary(getattr(aten, name))
    ),
    *(case for name in ["abs", "neg", "relu", "sign"] for case in _unary(getattr(aten, name), NUMBERS)),
    *_unary(aten.bitwise_not, (*INTEGERS, "bool")),
    *_unary(aten.logical_not, EVERY),
    Case("aten.exp.default", lambda t: aten.exp.default(t.x), INTEGERS, "of integers"),
    Case("aten.sigmoid.default", lambda t: aten.sigmoid.default(t.zero_dim), FLOATS, "zero dimensions"),
    Case("aten.isnan.default", lambda t: aten.isnan.default(aten.log.default(t.x)), FLOATS, "of NaN"),
    Case("aten.sign.default", lambda t: aten.sign.default(aten.log.default(t.x)), FLOATS, "of NaN"),
]

BINARY = [
    *(case for name in ("add", "mul", "sub") for case in _binary(getattr(aten, name).Tensor, NUMBERS)),
    *(case for name in ("maximum", "minimum") for case in _binary(getattr(aten, name).default, EVERY)),
    *(case for name in ["eq", "ne", "lt", "le", "gt", "ge"] for case in _binary(getattr(aten, name).Tensor, EVERY)),
    # torch's fake tensors and its kernel disagree on the strides of a transposed operand here (2.13)
    *(
        case
        for name in ("and", "or", "xor")
        for case in _binary(getattr(aten, f"logical_{name}").default, EVERY)
        if "turned" not in case.label
    ),
    *(
        case
        for name in ("and", "or", "xor")
        for case in _binary(getattr(aten, f"bitwise_{name}").Tensor, (*INTEGERS, "bool"))
    ),
    *_binary(aten.div.Tensor, FLOATS),
    Case("aten.div.Tensor", lambda t: aten.true_divide.Tensor(t.x, t.y), FLOATS, "by another name"),
    *_binary(aten.atan2.default),
    *_binary(aten.fmod.Tensor),
    *_binary(aten.remainder.Tensor),
    Case("aten.div.Tensor", lambda t: aten.div.Tensor(t.x, t.y), INTEGERS, "of integers"),
    Case("aten.div.Tensor_mode", lambda t: aten.div.Tensor_mode(t.x, t.y, rounding_mode="floor")),
    Case("aten.div.Tensor_mode", lambda t: aten.div.Tensor_mode(t.x, t.y, rounding_mode="trunc"), FLOATS, "trunc"),
    Case("aten.div.Tensor_mode", lambda t: aten.div.Tensor_mode(t.x, t.y, rounding_mode=None), FLOATS, "none"),
    Case("aten.div.Scalar_mode", lambda t: aten.div.Scalar_mode(t.x, 3, rounding_mode="floor"), NUMBERS),
    Case("aten.div.Scalar", lambda t: aten.div.Scalar(t.x, 3), NUMBERS),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, t.y, alpha=2), NUMBERS, "alpha"),
    Case("aten.sub.Tensor", lambda t: aten.sub.Tensor(t.x, t.y, alpha=2), NUMBERS, "alpha"),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, 2.5), NUMBERS, "integers and a float"),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, t.wide), NUMBERS, "two dtypes"),
    Case("aten.mul.Tensor", lambda t: aten.mul.Tensor(t.zero_dim, t.mask), NUMBERS, "with booleans"),
    Case("aten.mul.Tensor", lambda t: aten.mul.Tensor(t.wide.sum(), t.x), FLOATS, "wider, of no dimensions"),
    Case("aten.lt.Tensor", lambda t: aten.lt.Tensor(t.x, t.wide), NUMBERS, "two dtypes"),
    Case(
        "aten.eq.Scalar",
        lambda t: aten.eq.Scalar(aten.full.default([3], 0.1, dtype=t.x.dtype, device=t.x.device), 0.1),
        FLOATS,
        "inexact",
    ),
    *(
        _with_number(getattr(aten, name).Scalar, 2, NUMBERS)
        for name in ["add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "fmod", "remainder"]
    ),
    *(_with_number(getattr(aten, f"bitwise_{name}").Scalar, 3, INTEGERS) for name in ("and", "or", "xor")),
    Case("aten.mul.Tensor", lambda t: aten.mul.Tensor(t.x, t.x.shape[0]), NUMBERS, "by a size"),
    Case("aten.add.Tensor", lambda t: aten.add.Tensor(t.x, t.y, alpha=t.x.shape[1]), NUMBERS, "alpha is a size"),
    Case("aten.div.Tensor", lambda t: aten.div.Tensor(t.x, t.x.shape[1] ** 0.5), FLOATS, "by a root of a size"),
    Case("aten.pow.Tensor_Scalar", lambda t: aten.pow.Tensor_Scalar(t.x, 3)),
    Case("aten.pow.Tensor_Scalar", lambda t: aten.pow.Tensor_Scalar(t.x, 2), FLOATS, "square"),
    Case("aten.pow.Tensor_Scalar", lambda t: aten.pow.Tensor_Scalar(t.x, 0.5), NUMBERS[:4], "root"),
    Case("aten.pow.Tensor_Tensor", lambda t: aten.pow.Tensor_Tensor(t.x, t.y)),
    Case("aten.pow.Scalar", lambda t: aten.pow.Scalar(2.0, t.x), NUMBERS),
    Case("aten.clamp.default", lambda t: aten.clamp.default(t.x, 0, 2), NUMBERS),
    Case("aten.clamp.default", lambda t: aten.clamp.default(t.x, 1.5), FLOATS, "below"),
    Case("aten.clamp.default", lambda t: aten.clamp.default(t.x, 2, -2), FLOATS, "bounds crossed"),
    Case("aten.clamp.Tensor", lambda t: aten.clamp.Tensor(t.x, t.row, t.y), NUMBERS),
    Case("aten.where.self", lambda t: aten.where.self(t.mask, t.x, t.y), EVERY),
    Case("aten.where.self", lambda t: aten.where.self(t.mask, t.x, t.wide.sum()), NUMBERS, "two dtypes"),
]
