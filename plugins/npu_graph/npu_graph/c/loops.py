"""What conversions return, and what they write loops with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from npu_graph.c.memory import Buffer
from npu_graph.c.printing import C_TYPES, is_one, size
from npu_graph.pipeline.subgraph import Operand

if TYPE_CHECKING:
    from npu_graph.c.program import Program

__all__ = ["Block", "Index", "Map", "Reader", "View", "Writer", "broadcast", "loops", "places"]

#: One C expression per dimension.
Index = Sequence[str]
#: Iterations from which on threads pay.
PARALLEL_FROM = 32768


@dataclass(frozen=True)
class Map:
    """One element of the result from elements of others.

    Args:
        element: takes a reader and an index of the result, returns the element as a C expression.
        is_cheap: made anew where it is read, so that it never needs memory of its own (constants, counters).
    """

    element: Callable[[Reader, Index], str]
    is_cheap: bool = False


@dataclass(frozen=True)
class View:
    """The memory of an operand, arranged anew.

    Args:
        operand: whose.
        arrange: takes its memory and returns the view, ``None`` where a copy that lies row by row is due first.
    """

    operand: Operand
    arrange: Callable[[Buffer], Optional[Buffer]]


@dataclass(frozen=True)
class Block:
    """Loops of its own.

    Args:
        write: takes a writer and the memory of each result (``None`` where there is none), which lies row by row;
            returns C statements.
        folds: operands that it reads element by element, each element once: these need no memory unless others read it.
    """

    write: Callable[[Writer, Sequence[Any]], str]
    folds: tuple[Operand, ...] = ()


class Reader:
    """What elements are computed with, inside the innermost loop; ``lines`` are the statements that come before them.

    Args:
        program: has the values.
        shape: of the nest of loops, ``None`` in a block.
        nest: the loops themselves.
        flat: the counter, where one loop goes over all elements.
        marks: what is read needs to be in memory.
    """

    def __init__(
        self,
        program: Program,
        shape: Optional[Sequence[Any]] = None,
        nest: Any = None,
        flat: str = "",
        marks: bool = True,
    ) -> None:
        self.lines: list[str] = []
        self.checks_indices = False
        self.after = 0  # the first step at which everything that is read is there
        self._program = program
        self._shape = shape
        self._nest = nest
        self._flat = flat
        self._marks = marks

    def read(self, operand: Operand, index: Index) -> str:
        """Return an element of an operand."""
        value = self._program.values[operand.name]
        if isinstance(value, Map):
            # arithmetic of small whole numbers is that of int in C
            return f"(({C_TYPES[operand.dtype]})({value.element(self, index)}))"
        assert isinstance(value, Buffer)
        is_here = self._shape is not None and list(index) == places(self._shape) and value.has_shape(self._shape)
        nest = self._program.nests.get(operand.name)
        if nest is not None and is_here:
            self.after = max(self.after, value.root.step)
            if nest is self._nest:
                return f"v_{operand.name}"
        else:
            self.after = max(self.after, value.root.step + 1)
        value.root.is_needed |= self._marks
        return self.element(value, index)

    def element(self, buffer: Buffer, index: Index) -> str:
        """Return an element of memory."""
        if self._flat and self._shape is not None and buffer.is_contiguous and buffer.has_shape(self._shape):
            return f"{buffer.pointer}[{self._flat}]" if list(index) == places(self._shape) else buffer.at(index)
        return buffer.at(index)

    def let(self, text: str, dtype: torch.dtype) -> str:
        """Return the name of a new local that holds an expression; a name is its own."""
        if text.isidentifier():
            return text
        name = self._program.unique("t")
        self.lines.append(f"const {C_TYPES[dtype]} {name} = {text};")
        return name

    def checked(self, text: str, limit: Any, wraps: bool = True) -> str:
        """Return an index; the kernel fails where it is out of range.

        Args:
            text: the index.
            limit: the size of the dimension.
            wraps: a negative index counts from the end.
        """
        name = self._program.unique("t")
        self.checks_indices = True
        self.lines.append(f"int64_t {name} = {text};")
        if wraps:
            self.lines.append(f"{name} += {name} < 0 ? {size(limit)} : 0;")
        self.lines.append(f"if ({name} < 0 || {name} >= {size(limit)}) {{ out_of_range = 1; continue; }}")
        return name


class Writer:
    """What blocks are written with.

    Args:
        program: has the values.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def unique(self, stem: str) -> str:
        """Return a name that nothing else has."""
        return self._program.unique(stem)

    def reader(self) -> Reader:
        """Return what reads elements in a loop of this block."""
        return Reader(self._program)

    def buffer(self, operand: Operand) -> Buffer:
        """Return the memory of an operand, with any strides."""
        return self._program.in_memory(operand)

    def row_major(self, operand: Operand) -> Buffer:
        """Return memory that has an operand row by row: a copy, unless it lies like that."""
        buffer = self._program.in_memory(operand)
        return buffer if buffer.is_contiguous else self._program.copied(buffer)

    def scratch(self, dtype: torch.dtype, shape: Sequence[Any]) -> Buffer:
        """Return memory for this block alone."""
        return self._program.memory(self.unique("scratch"), dtype, shape)

    def loops(
        self, shape: Sequence[Any], body: Callable[[Reader, Index], str], parallel: bool = True, simd: bool = True
    ) -> str:
        """Return loops over a shape around statements.

        Args:
            shape: how often.
            body: takes a reader and the index; returns the statements that use what it read.
            parallel: the order of iterations is of no matter.
            simd: the body has neither loops nor jumps.
        """
        reader = self.reader()
        stem = self.unique("j")
        index = places(shape, f"{stem}_")
        last = body(reader, index)
        simd = simd and parallel and not reader.checks_indices
        return loops(shape, index, [*reader.lines, last], parallel, simd)


def places(shape: Sequence[Any], stem: str = "i") -> list[str]:
    """Return the index that loops over a shape are at: a counter per dimension, 0 where the size is 1."""
    return ["0" if is_one(n) else f"{stem}{dim}" for dim, n in enumerate(shape)]


def loops(shape: Sequence[Any], index: Index, lines: Sequence[str], parallel: bool, simd: bool = True) -> str:
    """Return loops over a shape.

    Args:
        shape: limits of the counters.
        index: as :func:`places` returns it.
        lines: statements.
        parallel: by threads, if there is enough to do.
        simd: several iterations of the innermost loop at once.
    """
    counters = [(name, size(n)) for name, n in zip(index, shape) if name != "0"]
    body = "\n".join(lines)
    if not counters:
        return f"do {{\n{body}\n}} while (0);"
    heads = [f"for (int64_t {name} = 0; {name} < {limit}; {name}++) {{" for name, limit in counters]
    enough = f"if ({' * '.join(limit for _, limit in counters)} >= {PARALLEL_FROM})"
    if parallel and len(heads) == 1:
        heads[0] = f"#pragma omp parallel for{' simd' if simd else ''} {enough}\n{heads[0]}"
    elif parallel:
        outer = f" collapse({len(heads) - 1})" if len(heads) > 2 else ""
        heads[0] = f"#pragma omp parallel for{outer} {enough}\n{heads[0]}"
        if simd:
            heads[-1] = f"#pragma omp simd\n{heads[-1]}"
    return "\n".join([*heads, body, "}" * len(heads)])


def broadcast(operand: Operand, index: Index) -> list[str]:
    """Return the index of an operand that is broadcast to what an index is of."""
    taken = list(index)[len(index) - operand.ndim :]
    return ["0" if is_one(n) else place for n, place in zip(operand.shape, taken)]
