"""Reads elements for conversions, and writes blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Protocol

import torch

from npu_graph.c.loops import Index, Map, loops, places
from npu_graph.c.memory import Buffer
from npu_graph.c.printing import C_TYPES, same, size
from npu_graph.operations.subgraph import Operand

__all__ = ["Loops", "Reader", "Tracer", "Values", "Writer"]

#: Takes memory and an index; returns the element where it has another place than in that memory, else ``None``.
Elsewhere = Callable[[Buffer, Index], Optional[str]]


class Loops(Protocol):
    """The part of a :class:`~npu_graph.c.nests.Nest` that a reader uses."""

    @property
    def shape(self) -> Sequence[Any]:
        """The limits."""

    @property
    def step(self) -> int:
        """The place in the program."""


class Values(Protocol):
    """The part of a :class:`~npu_graph.c.program.Program` that a reader or a writer uses."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The values by the names of operands."""

    @property
    def nests(self) -> Mapping[str, Any]:
        """The loops that compute a value, by the name of its operand."""

    def unique(self, stem: str) -> str:
        """Return a unique name."""

    def in_memory(self, operand: Operand) -> Buffer:
        """Return the memory of a value; a value without memory gets some."""

    def copied(self, buffer: Buffer) -> Buffer:
        """Return a copy that lies row by row."""

    def memory(self, name: str, dtype: torch.dtype, shape: Sequence[Any]) -> Buffer:
        """Return new memory, which lies row by row."""


class Reader:
    """Computes elements inside the innermost loop; ``lines`` are the statements that come before them.

    Args:
        program: has the values.
        nest: the loops, ``None`` in a block.
        index: their counters, one expression per dimension of the nest.
        elsewhere: where elements are that a row has of its own.
    """

    def __init__(
        self,
        program: Values,
        nest: Optional[Loops] = None,
        index: Index = (),
        elsewhere: Elsewhere = lambda buffer, index: None,
    ) -> None:
        self.lines: list[str] = []
        self.checks_indices = False
        self._program = program
        self._nest = nest
        self._index = list(index)
        self._elsewhere = elsewhere

    def read(self, operand: Operand, index: Index) -> str:
        """Return an element of an operand."""
        value = self._program.values[operand.name]
        if isinstance(value, Map):
            # arithmetic of small whole numbers is that of int in C
            return f"(({C_TYPES[operand.dtype]})({value.element(self, index)}))"
        assert isinstance(value, Buffer)
        nest = self._program.nests.get(operand.name)
        if nest is not None and list(index) == self._index and value.has_shape(nest.shape) and self._is_in(nest):
            return f"v_{operand.name}"
        return self.element(value, index)

    def _is_in(self, nest: Loops) -> bool:
        return nest is self._nest

    def element(self, buffer: Buffer, index: Index) -> str:
        """Return an element of memory."""
        buffer.root.is_needed |= self._nest is None
        return self._elsewhere(buffer, index) or buffer.at(index)

    def let(self, text: str, dtype: torch.dtype) -> str:
        """Return the name of a new local variable for an expression; a name is returned as it is."""
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


class Tracer(Reader):
    """Reads nothing, but notes the reads: its results have no counters but those that are used themselves.

    Args:
        program, nest, index: as for a reader. Without a nest, one over the shape is looked for.
        shape: of the nest that is looked for.
    """

    def __init__(
        self, program: Values, index: Index, nest: Optional[Loops] = None, shape: Optional[Sequence[Any]] = None
    ) -> None:
        super().__init__(program, nest, index)
        self.accesses: list[tuple[Buffer, tuple[str, ...]]] = []
        #: The first step at which everything that is read exists, -1 if it exists from the start.
        self.after = -1
        self._shape = shape

    def _is_in(self, nest: Loops) -> bool:
        if self._shape is None:
            return nest is self._nest
        fits = len(nest.shape) == len(self._shape) and all(map(same, nest.shape, self._shape))
        if fits:
            self.after = max(self.after, nest.step)
        return fits

    def element(self, buffer: Buffer, index: Index) -> str:
        """Note an element of memory."""
        self.accesses.append((buffer, tuple(index)))
        if buffer.root.step >= 0:
            self.after = max(self.after, buffer.root.step + 1)
        return f"*{buffer.root.name}"


class Writer:
    """Writes blocks.

    Args:
        program: has the values.
    """

    def __init__(self, program: Values) -> None:
        self._program = program

    def unique(self, stem: str) -> str:
        """Return a unique name."""
        return self._program.unique(stem)

    def reader(self) -> Reader:
        """Return the reader of elements for a loop of this block."""
        return Reader(self._program)

    def buffer(self, operand: Operand) -> Buffer:
        """Return the memory of an operand, with any strides."""
        return self._program.in_memory(operand)

    def row_major(self, operand: Operand) -> Buffer:
        """Return the memory of an operand row by row: a copy, unless it lies like that."""
        buffer = self._program.in_memory(operand)
        return buffer if buffer.is_contiguous else self._program.copied(buffer)

    def scratch(self, dtype: torch.dtype, shape: Sequence[Any]) -> Buffer:
        """Return memory for this block alone."""
        return self._program.memory(self.unique("scratch"), dtype, shape)

    def loops(
        self,
        shape: Sequence[Any],
        body: Callable[[Reader, Index], str],
        independent: Optional[int] = None,
        simd: bool = True,
    ) -> str:
        """Return loops over a shape around statements.

        Args:
            shape: how often.
            body: takes a reader and the index; returns the statements that use the values that were read.
            independent: how many of the first dimensions may be gone through in any order; all by default.
            simd: the body has neither loops nor jumps.
        """
        reader = self.reader()
        stem = self.unique("j")
        index = places(shape, f"{stem}_")
        last = body(reader, index)
        simd = simd and independent is None and not reader.checks_indices
        parallel = len(shape) if independent is None else independent
        return loops(shape, index, [*reader.lines, last], parallel, simd)
