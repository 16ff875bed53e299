"""Loops over a shape that compute elements and fold them: their reads, writes and source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union

import sympy

from npu_graph.c.loops import PARALLEL_FROM, Fold, Index, Map, loops, places
from npu_graph.c.memory import Buffer, elements
from npu_graph.c.printing import C_TYPES, is_one, same, size
from npu_graph.c.reading import Reader, Tracer, Values
from npu_graph.operations.values import expression

__all__ = ["Access", "Member", "Nest", "NestText", "Own", "collapse", "enough", "merged", "stride"]

#: Neighbours that one thread folds at a time, where the folded elements lie apart: a multiple of the first, up to the
#: second; ``tile_of`` in ``scalar.h`` chooses. Wide tiles read more of each row at once, narrow ones are more to share.
TILE, _WIDEST = 128, 1024
#: For all the neighbours of a tile together, so that they stay in the first cache.
_ACCUMULATORS = 2048
#: Results from which on threads have enough to do where each computes those of its neighbours alone.
_ENOUGH_KEPT = 8 * TILE
_COUNTER = re.compile(r"\bi\d+\b")


@dataclass(frozen=True)
class Access:
    """An element that is read or written at each iteration.

    Args:
        buffer: which memory.
        index: as :func:`~npu_graph.c.loops.places` has it, or any other expressions.
    """

    buffer: Buffer
    index: tuple[str, ...]

    def steps(self) -> dict[str, Any]:
        """Strides: how far each counter moves the address."""
        found: dict[str, Any] = {}
        for place, stride in zip(self.index, self.buffer.stride):
            if place != "0":
                found[place] = found.get(place, sympy.S.Zero) + stride
        return found

    @property
    def is_regular(self) -> bool:
        """True if the counters alone identify the element."""
        return all(place == "0" or _COUNTER.fullmatch(place) for place in self.index)


@dataclass(frozen=True)
class Member:
    """One computation of a nest.

    Args:
        name: of the operation.
        made: an element, or a fold of elements.
        buffer: the result; of a fold, with the dimensions alone that are kept.
    """

    name: str
    made: Union[Map, Fold]
    buffer: Buffer

    @property
    def local(self) -> str:
        """Name of the local variable of the element."""
        return f"v_{self.name}"


@dataclass(eq=False)
class Nest:
    """Loops over a shape that compute an element of each member.

    Args:
        shape: the limits.
        step: place in the program.
        gone: the dimensions that its folds fold; all of them the same.
        members: in order.
        reads: the reads from memory; known when all members are known.
        joins: pairs of neighbouring dimensions that one counter can go through; noted then, too.
    """

    shape: tuple[Any, ...]
    step: int
    gone: tuple[int, ...] = ()
    members: list[Member] = field(default_factory=list)
    reads: list[Access] = field(default_factory=list)
    joins: set[tuple[int, int]] = field(default_factory=set)

    @property
    def dims(self) -> list[int]:
        """The dimensions with more than one element."""
        return [dim for dim, n in enumerate(self.shape) if not is_one(n)]

    @property
    def outer(self) -> tuple[int, ...]:
        """For a fold, the kept dimensions that lie outside the last folded one."""
        last = max((dim for dim in self.gone if not is_one(self.shape[dim])), default=len(self.shape))
        return tuple(dim for dim in self.dims if dim not in self.gone and dim < last)

    @property
    def folds(self) -> bool:
        """True if any member is a fold."""
        return any(isinstance(member.made, Fold) for member in self.members)

    @property
    def is_tiled(self) -> bool:
        """True if the elements that it folds lie apart in memory, and neighbours belong to different results."""
        return self.folds and bool(set(self.dims) - {*self.outer, *self.gone})

    @property
    def has_rows(self) -> bool:
        """True if the outer loops go over all kept dimensions, so that inner loops may compute elements, too."""
        return bool(self.outer) and set(self.dims) <= {*self.outer, *self.gone}

    def with_elements(self, elementwise: Nest) -> Optional[Nest]:
        """Return these tiles with the elements of the nest before, so that results are folded where they are made.

        ``None`` where this has no tiles, where the other one has other loops or folds, and where it is not known that
        there are tiles enough for threads to share.
        """
        if not self.is_tiled or elementwise.folds or not elementwise.has_room(self.shape, ()):
            return None
        kept = elements([self.shape[dim] for dim in self.dims if dim not in self.gone])
        if not (kept.is_Integer and kept >= _ENOUGH_KEPT):
            return None
        return Nest(self.shape, self.step, self.gone, [*elementwise.members, *self.members])

    def has_room(self, shape: Sequence[Any], gone: tuple[int, ...]) -> bool:
        """Return whether another member can share its loops: folds of dimensions, or elements if there are none."""
        if len(shape) != len(self.shape) or not all(map(same, shape, self.shape)):
            return False
        if not gone or not self.gone:
            return not (gone or self.gone) or replace(self, gone=gone or self.gone).has_rows
        return gone == self.gone

    def written(self, member: Member) -> Access:
        """Return the memory of the result of a member."""
        kept = [place for dim, place in enumerate(places(self.shape)) if dim not in self.gone]
        return Access(member.buffer, tuple(kept if isinstance(member.made, Fold) else places(self.shape)))

    def trace(self, program: Values) -> None:
        """Note the reads, and which dimensions can be merged because they are contiguous in memory."""
        index = places(self.shape)
        tracer = Tracer(program, index, self)
        texts = [member.made.element(tracer, index) for member in self.members]
        self.reads = [Access(*access) for access in tracer.accesses]
        used = set(_COUNTER.findall("\n".join([*tracer.lines, *texts])))
        moves = [each.steps() for each in (*self.reads, *map(self.written, self.members))]
        pairs = zip(self.dims, self.dims[1:])
        self.joins = {
            (one, other)
            for one, other in pairs
            if not used & {index[one], index[other]}
            and (one in self.gone) == (other in self.gone)
            and all(same(m.get(index[one], 0), m.get(index[other], 0) * expression(self.shape[other])) for m in moves)
        }


@dataclass
class Own:
    """The values that each iteration of outer loops has.

    Args:
        registers: the local variable of a value with one element, by the name of its memory.
        strides: of memory that is of one row: those of the memory that it stands for, each with its own.
    """

    registers: dict[str, str] = field(default_factory=dict)
    strides: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)

    def read(self, buffer: Buffer, index: Index) -> Optional[str]:
        """Return an element, ``None`` where it is in memory."""
        return self.registers.get(buffer.root.name) or self.place(buffer, index)

    def place(self, buffer: Buffer, index: Index) -> Optional[str]:
        """Return an element in the memory of a row, ``None`` where it is in other memory."""
        known = self.strides.get(buffer.root.name)
        if known is None:
            return None
        moves = {place: step for place, step in Access(buffer, tuple(index)).steps().items() if step != 0}
        terms = [f"{place} * {size(stride(known, step))}" for place, step in moves.items() if _COUNTER.fullmatch(place)]
        return f"{self.name(buffer.root.name)}[{' + '.join(terms) or '0'}]"

    @staticmethod
    def name(root: str) -> str:
        """Return the name of the memory of a row."""
        return f"row_{root}"


def stride(known: Sequence[tuple[Any, Any]], step: Any) -> Any:
    """Return the stride in the memory of a row, ``None`` if there is none."""
    return next((own for given, own in known if same(given, step)), None)


class NestText:
    """The source of a nest.

    Args:
        program: has the values.
        nest: which.
        outer: dimensions whose loops are around it, and their counters.
        is_stored: names of members that go to memory, or to that of a row.
        own: the values that each iteration of the outer loops has of its own.
    """

    def __init__(
        self,
        program: Values,
        nest: Nest,
        outer: Mapping[int, str],
        is_stored: Iterable[str],
        own: Own,
    ) -> None:
        self._nest = nest
        self._own = own
        self._is_stored = set(is_stored)
        self._limits = list(nest.shape)
        self._index = places(nest.shape)
        for dim, counter in outer.items():
            self._index[dim] = counter
        self._inner = [dim for dim in nest.dims if dim not in outer]
        for dim in list(self._inner):  # from the outside in, so that products of more than two add up
            following = next((other for other in self._inner if other > dim), None)
            if following is not None and (dim, following) in nest.joins:
                self._limits[following] = elements([self._limits[dim], self._limits[following]])
                self._index[dim] = "0"
                self._inner.remove(dim)
        self._reader = Reader(program, nest, self._index, own.read)

    def text(self, parallel: bool) -> str:
        """Return the loops inside the outer ones; ``parallel`` if there are no outer ones."""
        if self._nest.is_tiled:
            return self._in_tiles(parallel)
        if self._nest.folds:
            return self._folded()
        lines = [line for member in self._nest.members for line in self._computed(member)]
        if not self._inner:
            return "\n".join(lines)
        limits, index = zip(*((self._limits[dim], self._index[dim]) for dim in self._inner))
        return loops(limits, index, lines, len(limits) if parallel else 0, simd=not self._reader.checks_indices)

    def _computed(self, member: Member) -> list[str]:
        element = member.made.element(self._reader, self._index)
        lines, self._reader.lines = self._reader.lines, []
        lines.append(f"const {member.buffer.c_type} {member.local} = {element};")
        return [*lines, *self._stored(member, member.local, self._index)]

    def _stored(self, member: Member, value: str, index: Index) -> list[str]:
        if member.name not in self._is_stored:
            return []
        return [f"{self._own.place(member.buffer, index) or member.buffer.at(index)} = {value};"]

    def _stepped(self, member: Member, fold: Fold, at: str = "") -> list[str]:
        element = fold.element(self._reader, self._index)
        lines, self._reader.lines = self._reader.lines, []
        x = f"x_{member.name}"
        lines.append(f"const {C_TYPES[fold.dtype]} {x} = {element};")
        return [*lines, fold.step.format(x=x, **{name: f"{each}{at}" for name, each in _accumulators(member).items()})]

    def _folded(self) -> str:
        """Folds that give one element for each iteration of the loops around."""
        nest, starts, body, ends, clauses = self._nest, [], [], [], []
        kept = [place for dim, place in enumerate(self._index) if dim not in nest.gone]
        for member in nest.members:
            if isinstance(member.made, Map):
                body += self._computed(member)
                continue
            names = _accumulators(member)
            starts += [f"{part.kind} {names[part.name]} = {part.start};" for part in member.made.parts]
            clauses += [f"reduction({part.sign}:{names[part.name]})" for part in member.made.parts]
            body += self._stepped(member, member.made)
            ends.append(f"const {member.buffer.c_type} {member.local} = {member.made.end.format(**names)};")
            ends += self._stored(member, member.local, kept)
        heads = [_head(self._index[dim], self._limits[dim]) for dim in self._inner]
        if heads and not self._reader.checks_indices:
            heads[-1] = f"#pragma omp simd {' '.join(clauses)}\n{heads[-1]}"
        return "\n".join([*starts, *heads, *body, "}" * len(heads), *ends])

    def _in_tiles(self, parallel: bool) -> str:
        """Folds of elements that lie apart: neighbours in memory go into neighbouring accumulators."""
        nest = self._nest
        *around, last = [dim for dim in self._inner if dim not in nest.gone]
        counter, limit = self._index[last], size(self._limits[last])
        others = size(elements([self._limits[dim] for dim in around]))
        parts = sum(len(member.made.parts) for member in nest.members if isinstance(member.made, Fold))
        most = max(TILE, min(_WIDEST, _ACCUMULATORS // parts // TILE * TILE))
        outer = [_head(self._index[dim], self._limits[dim]) for dim in around]
        outer.append(f"for (int64_t start = 0; start < {limit}; start += tile) {{")
        if parallel:
            outer[0] = f"#pragma omp parallel for{collapse(len(outer))}{enough([nest.shape])}\n{outer[0]}"
        each = f"for (int64_t {counter} = start; {counter} < end; {counter}++) {{"
        here = f"[{counter} - start]"
        kept = [place for dim, place in enumerate(self._index) if dim not in nest.gone]
        arrays, starts, body, ends = [], [], [], []
        for member in nest.members:
            fold = member.made
            if isinstance(fold, Map):
                body += self._computed(member)
                continue
            names = _accumulators(member)
            arrays += [f"{part.kind} {names[part.name]}[{most}];" for part in fold.parts]
            starts += [f"{names[part.name]}[k] = {part.start};" for part in fold.parts]
            body += self._stepped(member, fold, here)
            end = fold.end.format(**{name: f"{array}{here}" for name, array in names.items()})
            ends += self._stored(member, end, kept)
        inner = [_head(self._index[dim], self._limits[dim]) for dim in self._inner if dim in nest.gone]
        simd = [] if self._reader.checks_indices else ["#pragma omp simd"]
        return "\n".join(
            [
                "{",
                f"const int64_t tile = tile_of({limit}, {others}, {TILE}, {most});",
                *outer,
                f"const int64_t end = smaller(start + tile, {limit});",
                *arrays,
                f"for (int64_t k = 0; k < end - start; k++) {{ {' '.join(starts)} }}",
                *inner,
                *simd,
                each,
                *body,
                "}" * (len(inner) + 1),
                each,
                *ends,
                "}" * (len(outer) + 2),
            ]
        )


def collapse(count: int) -> str:
    """Return the clause of OpenMP that shares the iterations of several loops among threads."""
    return f" collapse({count})" if count > 1 else ""


def enough(shapes: Sequence[Sequence[Any]]) -> str:
    """Return the clause of OpenMP that uses threads only if there is enough work."""
    return f" if ({size(sum(map(elements, shapes)))} >= {PARALLEL_FROM})"


def _accumulators(member: Member) -> dict[str, str]:
    assert isinstance(member.made, Fold)
    return {part.name: f"{part.name}_{member.name}" for part in member.made.parts}


def _head(name: str, limit: Any) -> str:
    return f"for (int64_t {name} = 0; {name} < {size(limit)}; {name}++) {{"


def merged(steps: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return (stride, size) of dimensions; dimensions that are contiguous in memory are merged."""
    found: list[tuple[Any, Any]] = []
    for stride, n in steps:
        if found and same(found[-1][0], stride * n):
            found[-1] = (stride, elements([found[-1][1], n]))
        else:
            found.append((stride, n))
    return found
