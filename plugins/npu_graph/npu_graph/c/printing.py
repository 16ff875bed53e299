"""Types, numbers and sizes as C source."""

from __future__ import annotations

import functools
import math
from typing import Any

import sympy
import torch
from sympy.printing.c import C99CodePrinter

from npu_graph.operations.subgraph import Operand
from npu_graph.operations.values import expression

__all__ = ["C_TYPES", "integer", "is_one", "number", "same", "size"]

C_TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
    torch.uint8: "uint8_t",
    torch.bool: "bool",
}


class _SizePrinter(C99CodePrinter):
    """Prints sizes: whole numbers, with the functions that torch has for them. Functions are those of ``scalar.h``."""

    def _print_Integer(self, expr: sympy.Integer) -> str:
        return str(int(expr)) if abs(int(expr)) < 2**31 else f"INT64_C({int(expr)})"

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return str(expr)

    def _print_Pow(self, expr: sympy.Pow) -> str:
        base, exponent = expr.args
        if not (exponent.is_Integer and exponent > 0):
            raise NotImplementedError(f"no C for the size {expr}")
        return "(" + " * ".join([f"({self._print(base)})"] * int(exponent)) + ")"

    def _call(self, name: str, expr: Any) -> str:
        text = self._print(expr.args[-1])
        for argument in reversed(expr.args[:-1]):
            text = f"{name}({self._print(argument)}, {text})"
        return str(text)

    def _print_FloorDiv(self, expr: Any) -> str:
        return self._call("floor_divide", expr)

    def _print_Mod(self, expr: Any) -> str:
        return self._call("remainder_of", expr)

    def _print_Max(self, expr: Any) -> str:
        return self._call("larger", expr)

    def _print_Min(self, expr: Any) -> str:
        return self._call("smaller", expr)

    def _print_ModularIndexing(self, expr: Any) -> str:
        x, divisor, modulus = map(self._print, expr.args)
        return f"remainder_of(floor_divide({x}, {divisor}), {modulus})"

    _print_CleanDiv = _print_IntTrueDiv = _print_FloorDiv
    _print_PythonMod = _print_Mod

    def emptyPrinter(self, expr: Any) -> str:
        raise NotImplementedError(f"no C for the size {expr} ({type(expr).__name__})")

    _print_not_supported = emptyPrinter


def size(given: Any) -> str:
    """Return a size or stride (``int``, ``SymInt``, expression) as a C expression of type ``int64_t``."""
    return _size(expression(given))


@functools.lru_cache(maxsize=10_000)  # the same few sizes come again and again, and making a printer is slow
def _size(given: sympy.Expr) -> str:
    text = str(_SizePrinter().doprint(given))
    return text if text.isalnum() else f"({text})"


def integer(given: Any) -> str:
    """Return an argument that is a size or an index: a constant, a symbol, or a number that the kernel gets."""
    return f"n_{given.name}" if isinstance(given, Operand) else size(given)


def same(one: Any, other: Any) -> bool:
    """Return whether two sizes are known to be equal."""
    one, other = expression(one), expression(other)
    if one == other or (one.is_Integer and other.is_Integer):
        return bool(one == other)
    return bool(sympy.expand(one - other) == 0)


def is_one(given: Any) -> bool:
    """Return whether a size is known to be 1."""
    return bool(expression(given) == 1)


def number(given: Any, dtype: torch.dtype) -> str:
    """Return a number, or an operand that is a number at run time, in a dtype."""
    kind = C_TYPES[dtype]
    if isinstance(given, Operand):
        return f"(({kind})n_{given.name})"
    if isinstance(given, float):
        if math.isnan(given):
            return f"(({kind})NAN)"
        if math.isinf(given):
            return f"(({kind}){'-' if given < 0 else ''}INFINITY)"
        return f"(({kind}){given!r})"
    value = int(given)
    if value == -(2**63):
        return f"(({kind})INT64_MIN)"
    return f"(({kind})INT64_C({value}))" if abs(value) >= 2**31 else f"(({kind}){value})"
