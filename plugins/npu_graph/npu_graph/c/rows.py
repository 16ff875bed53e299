"""Nests of loops that share their outer loops, so that each row is worked on while it is in the cache."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import sympy

from npu_graph.c.loops import Fold, places
from npu_graph.c.memory import Root, elements
from npu_graph.c.nests import Access, Member, Nest, NestText, Own, collapse, enough, merged, stride
from npu_graph.c.printing import C_TYPES, same, size
from npu_graph.c.reading import Values
from npu_graph.operations.values import expression

__all__ = ["Rows", "joined"]

#: Where it is known that there are fewer, threads are better used inside them.
_ENOUGH_ROWS = 16


@dataclass(eq=False)
class Rows:
    """Nests in order that share their outer loops, and the dimensions of each that these loops run over.

    A nest may read only values that the same outer iteration of an earlier nest wrote.
    """

    sizes: tuple[Any, ...]
    nests: list[Nest] = field(default_factory=list)
    dims: dict[Nest, tuple[int, ...]] = field(default_factory=dict)
    _written: dict[str, tuple[Nest, Access]] = field(default_factory=dict)

    def take(self, nest: Nest) -> bool:
        """Add a nest if it can share the outer loops and reads values of these nests; return whether it was added."""
        if self.nests and not _are_enough(self.sizes):
            return False
        if not nest.folds:
            matches: Iterator[tuple[int, ...]] = itertools.combinations(nest.dims, len(self.sizes))
        else:
            matches = iter([nest.outer])
        for dims in matches:
            is_alike = len(dims) == len(self.sizes) and all(same(nest.shape[d], n) for d, n in zip(dims, self.sizes))
            if is_alike and self._is_safe(nest, dims):
                self.nests.append(nest)
                self.dims[nest] = dims
                self._written.update((m.buffer.root.name, (nest, nest.written(m))) for m in nest.members)
                return True
        return False

    def _is_safe(self, nest: Nest, dims: tuple[int, ...]) -> bool:
        is_related = not self.nests
        known = {read.buffer.root.name for each in self.nests for read in each.reads}
        for read in nest.reads:
            name = read.buffer.root.name
            if name in self._written:
                writer, written = self._written[name]
                if not _is_of_its_row((writer, self.dims[writer], written), (nest, dims, read)):
                    return False
                is_related = True
            is_related |= name in known
        return is_related

    def apart(self) -> list[Rows]:
        """Return the nests as separate steps."""
        found = []
        for nest in self.nests:
            found.append(Rows(()))
            found[-1].take(nest)
        return found

    # --- source -------------------------------------------------------------------------------------------------------

    def text(self, program: Values, readers: Mapping[str, set[Nest]]) -> str:
        """Return the loops; ``readers`` are the nests that read each memory."""
        own, memory, is_stored = self._owned(readers)
        if len(self.nests) == 1 and (self.nests[0].is_tiled or not self.sizes):
            text = NestText(program, self.nests[0], {}, is_stored, own).text(parallel=True)
            return f"do {{\n{text}\n}} while (0);"  # a loop, where an index that is out of range goes on with the next
        counters = [f"o{number}" for number in range(len(self.sizes))]
        body = []
        for nest in self.nests:
            outer = dict(zip(self.dims[nest], counters))
            body.append(NestText(program, nest, outer, is_stored, own).text(parallel=False))
        heads = [f"for (int64_t {name} = 0; {name} < {size(n)}; {name}++) {{" for name, n in zip(counters, self.sizes)]
        if_enough = enough([nest.shape for nest in self.nests])
        if not memory:
            return "\n".join(
                [f"#pragma omp parallel for{collapse(len(heads))}{if_enough}", *heads, *body, "}" * len(heads)]
            )
        rows = {own.name(root.name): (C_TYPES[root.dtype], size(count)) for root, count in memory}
        return "\n".join(
            [
                "{",
                "volatile int lacks_memory = 0;",
                f"#pragma omp parallel{if_enough}",
                "{",
                *(f"{kind} *restrict {name} = malloc(sizeof *{name} * ({n} + 1));" for name, (kind, n) in rows.items()),
                f"const int is_ready = {' && '.join(f'{name} != 0' for name in rows)};",
                "if (!is_ready) lacks_memory = 1;",
                f"#pragma omp for{collapse(len(heads))}",
                *heads,
                "if (!is_ready) continue;",
                *body,
                "}" * len(heads),
                *(f"free({name});" for name in rows),
                "}",
                "if (lacks_memory) goto no_memory;",
                "}",
            ]
        )

    def _owned(self, readers: Mapping[str, set[Nest]]) -> tuple[Own, list[tuple[Root, Any]], set[str]]:
        """The values that each row has, their memory with sizes, and the names of members that are stored."""
        own, memory, is_stored = Own(), [], set()
        for nest in self.nests:
            for member in nest.members:
                root = member.buffer.root
                inside = readers.get(root.name, set())
                is_single = not nest.is_tiled if isinstance(member.made, Fold) else self.dims[nest] == tuple(nest.dims)
                if is_single and self.sizes:
                    own.registers[root.name] = member.local
                if root.is_given or root.is_needed or not inside <= set(self.nests):
                    is_stored.add(member.name)
                elif inside and not (is_single and self.sizes):
                    is_stored.add(member.name)
                    layout, count = self._layout(nest, member)
                    if layout is not None:
                        own.strides[root.name] = layout
                        memory.append((root, count))
        return own, memory, is_stored

    def _layout(self, nest: Nest, member: Member) -> tuple[Optional[list[tuple[Any, Any]]], Any]:
        """Strides of a result with those that it has in the memory of one row; ``None`` if others are used as well."""
        count: Any = sympy.S.One
        layout = []
        for step, n in reversed(_split(nest, self.dims[nest], nest.written(member))[1]):
            layout.append((step, count))
            count = elements([count, n])
        for each in self.nests:
            for read in each.reads:
                inner = _split(each, self.dims[each], read)[1] if read.buffer.root is member.buffer.root else []
                if any(stride(layout, step) is None for step, _ in inner):
                    return None, count
        return (layout if self.sizes else None), count


def _is_of_its_row(written: tuple[Nest, tuple[int, ...], Access], read: tuple[Nest, tuple[int, ...], Access]) -> bool:
    """Return whether all that is read at an iteration of the outer loops was written at that one."""
    if not read[2].is_regular or not same(written[2].buffer.offset, read[2].buffer.offset):
        return False
    (outer, inner), (outer_read, inner_read) = _split(*written), _split(*read)
    if not all(map(same, outer, outer_read)):
        return False
    left = merged(inner)
    for stride_read, n_read in merged(inner_read):  # each at most once: the sum of two counters lies further
        found = next((each for each in left if same(each[0], stride_read) and same(each[1], n_read)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _split(nest: Nest, dims: Sequence[int], access: Access) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Steps by the outer counters, and steps with sizes by the inner ones."""
    steps, index = access.steps(), places(nest.shape)
    inner = [(steps[index[d]], expression(nest.shape[d])) for d in nest.dims if d not in dims and index[d] in steps]
    return [steps.get(index[d], 0) for d in dims], [(step, n) for step, n in inner if step != 0]


def joined(steps: Sequence[Union[Nest, str]]) -> list[Union[Rows, str]]:
    """Return the steps of a program with nests joined to rows where that is allowed."""
    found: list[Union[Rows, str]] = []
    rows: Optional[Rows] = None
    for position, step in enumerate(steps):
        if isinstance(step, str):
            rows = None
            found.append(step)
        elif rows is None or not rows.take(step):
            rows = Rows(_sizes(steps[position:]))
            if not rows.take(step):
                rows = Rows(())
                rows.take(step)
            found.append(rows)
    apart = [
        [each] if isinstance(each, str) or any(nest.folds for nest in each.nests) else each.apart() for each in found
    ]
    return list(itertools.chain.from_iterable(apart))


def _sizes(steps: Sequence[Union[Nest, str]]) -> tuple[Any, ...]:
    """The sizes of the outer loops: those of the next nest that folds, if there are enough of them."""
    for position, step in enumerate(steps):
        if isinstance(step, str):
            break
        if step.folds:
            sizes = tuple(expression(step.shape[d]) for d in step.outer)
            return sizes if position == 0 or _are_enough(sizes) else ()
    return ()


def _are_enough(sizes: Sequence[Any]) -> bool:
    count = elements(sizes)
    return bool(sizes) and not (count.is_Integer and count < _ENOUGH_ROWS)
