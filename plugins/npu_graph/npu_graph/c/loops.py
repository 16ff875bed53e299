"""The results of conversions: maps, views, blocks and folds, and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch

from npu_graph.c.memory import Buffer
from npu_graph.c.printing import is_one, size
from npu_graph.operations.subgraph import Operand

__all__ = ["PARALLEL_FROM", "Block", "Fold", "Index", "Map", "Part", "View", "broadcast", "loops", "places"]

#: One C expression per dimension.
Index = Sequence[str]
#: Iterations from which on threads pay.
PARALLEL_FROM = 32768


@dataclass(frozen=True)
class Map:
    """One element of the result from elements of others.

    Args:
        element: takes a :class:`~npu_graph.c.reading.Reader` and an index of the result, returns the element as a C
            expression.
        is_cheap: made anew where it is read, so that it never needs memory of its own (constants, counters).
    """

    element: Callable[[Any, Index], str]
    is_cheap: bool = False


@dataclass(frozen=True)
class View:
    """A view of the memory of an operand.

    Args:
        operand: whose.
        arrange: takes its memory and returns the view, ``None`` where a copy that lies row by row is due first.
    """

    operand: Operand
    arrange: Callable[[Buffer], Optional[Buffer]]


@dataclass(frozen=True)
class Block:
    """A result that writes its own loops.

    Args:
        write: takes a :class:`~npu_graph.c.reading.Writer` and the memory of each result (``None`` where there is
            none), which lies row by row; returns C statements.
        folds: operands that it reads element by element, each element once: these need no memory unless others read it.
    """

    write: Callable[[Any, Sequence[Any]], str]
    folds: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Part:
    """One accumulator of a fold.

    Args:
        name: by which the fold's step and end have it in braces.
        kind: its type in C.
        start: the first value.
        sign: the reduction of OpenMP that joins several.
    """

    name: str
    kind: str
    start: str
    sign: str


@dataclass(frozen=True)
class Fold:
    """A reduction of elements to one, over some dimensions.

    Args:
        operand: whose elements; it needs no memory unless others read it.
        gone: the dimensions, in order.
        element: takes a :class:`~npu_graph.c.reading.Reader` and an index of the operand, returns the element as a C
            expression.
        dtype: of the element.
        parts: the accumulators.
        step: a statement, with the element as ``{x}``.
        end: the result, as an expression.
    """

    operand: Operand
    gone: tuple[int, ...]
    element: Callable[[Any, Index], str]
    dtype: torch.dtype
    parts: tuple[Part, ...]
    step: str
    end: str = "{acc}"


def places(shape: Sequence[Any], stem: str = "i") -> list[str]:
    """Return the present index of loops over a shape: a counter per dimension, 0 where the size is 1."""
    return ["0" if is_one(n) else f"{stem}{dim}" for dim, n in enumerate(shape)]


def loops(shape: Sequence[Any], index: Index, lines: Sequence[str], parallel: int, simd: bool = True) -> str:
    """Return loops over a shape.

    Args:
        shape: limits of the counters.
        index: as :func:`places` returns it.
        lines: statements.
        parallel: how many of the first dimensions threads may share, if there is enough to do.
        simd: several iterations of the innermost loop at once.
    """
    counters = [(name, size(n)) for name, n in zip(index, shape) if name != "0"]
    body = "\n".join(lines)
    if not counters:
        return f"do {{\n{body}\n}} while (0);"
    heads = [f"for (int64_t {name} = 0; {name} < {limit}; {name}++) {{" for name, limit in counters]
    enough = f"if ({' * '.join(limit for _, limit in counters)} >= {PARALLEL_FROM})"
    shared = len([name for name in index[:parallel] if name != "0"])
    if shared and len(heads) == 1:
        # whole vectors, whatever the number of threads: functions of vectors and of single elements differ
        pragma = "parallel for simd schedule(static, 4096)" if simd else "parallel for"
        heads[0] = f"#pragma omp {pragma} {enough}\n{heads[0]}"
        return "\n".join([*heads, body, "}"])
    if simd:
        heads[-1] = f"#pragma omp simd\n{heads[-1]}"
    if shared:
        outer = min(shared, len(heads) - 1)
        heads[0] = f"#pragma omp parallel for{f' collapse({outer})' if outer > 1 else ''} {enough}\n{heads[0]}"
    return "\n".join([*heads, body, "}" * len(heads)])


def broadcast(operand: Operand, index: Index) -> list[str]:
    """Return the index of an operand that is broadcast to the shape that an index belongs to."""
    taken = list(index)[len(index) - operand.ndim :]
    return ["0" if is_one(n) else place for n, place in zip(operand.shape, taken)]
