"""Pieces of Python source that conversions are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import torch

from npu_graph.operations.subgraph import Operand, Operation

__all__ = ["HALVES", "axes", "cast", "dtype_name", "rounded", "sizes", "value"]

#: Floats of 16 bits: arrays of them are float32 here, and results are rounded after each operation.
HALVES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of the NumPy dtype for a dtype: ``np.float32``."""
    name = "float32" if dtype in HALVES else str(dtype).partition(".")[2]
    return f"np.{'bool_' if name == 'bool' else name}"


def value(given: Any, dtype: torch.dtype) -> str:
    """Return an operand, or a number with a dtype, because NumPy promotes by dtypes."""
    if isinstance(given, Operand) and given.is_tensor:
        return given.name
    if isinstance(given, int) and not (dtype.is_floating_point or dtype is torch.bool):
        info = torch.iinfo(dtype)
        given = (given - info.min) % (info.max - info.min + 1) + info.min  # torch wraps around, NumPy 2 refuses
    if isinstance(given, float) and not math.isfinite(given):
        given = "np.nan" if math.isnan(given) else ("np.inf" if given > 0 else "-np.inf")
    return f"{dtype_name(dtype)}({given})"


def rounded(given: Any, dtype: torch.dtype) -> str:
    """Return the same as :func:`value`, with numbers rounded to a dtype of 16 bits, in which operators compare."""
    is_number = dtype in HALVES and not isinstance(given, Operand)
    return f"numerics.{HALVES[dtype]}({value(given, dtype)})" if is_number else value(given, dtype)


def cast(given: Operand, dtype: torch.dtype) -> str:
    """Return an operand in a dtype."""
    return given.name if given.dtype is dtype else f"{given}.astype({dtype_name(dtype)})"


def sizes(given: Sequence[Any]) -> str:
    """Return a list of sizes: numbers, and operands that are numbers at run time."""
    return "(" + "".join(f"{size}, " for size in given) + ")"


def axes(operation: Operation, dim: Any, of: str = "self") -> Optional[tuple[int, ...]]:
    """Return the dimensions of a reduction as NumPy takes them; none, or an empty list, means all of them in torch."""
    given = operation.arguments[of]
    rank: int = given.ndim
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    dims = dim if isinstance(dim, (list, tuple)) else [dim]
    return tuple(sorted(int(each) % rank for each in dims)) if rank else ()
