"""The memory of values: shape, strides and offset in elements, as expressions of the symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

import sympy
import torch

from npu_graph.c.printing import C_TYPES, is_one, same, size
from npu_graph.operations.values import expression

__all__ = ["Buffer", "Root", "contiguous", "elements"]


@dataclass
class Root:
    """A piece of memory.

    Args:
        name: of the pointer.
        dtype: of its elements.
        count: how many.
        step: number of the operation in the program that writes it, -1 for inputs.
        is_given: memory of the caller: an input or an output.
        is_needed: true if anything reads it from memory; otherwise it stays in registers.
    """

    name: str
    dtype: torch.dtype
    count: Any
    step: int = -1
    is_given: bool = False
    is_needed: bool = False


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory, possibly a view."""

    root: Root
    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any = sympy.S.Zero

    @property
    def dtype(self) -> torch.dtype:
        """Type of its elements."""
        return self.root.dtype

    @property
    def c_type(self) -> str:
        """Type of its elements."""
        return C_TYPES[self.root.dtype]

    @property
    def pointer(self) -> str:
        """Address of its first element, as C source."""
        return self.root.name if self.offset == 0 else f"({self.root.name} + {size(self.offset)})"

    @property
    def is_contiguous(self) -> bool:
        """True if it is known to lie row by row."""
        wanted = contiguous(self.shape)
        return all(is_one(n) or same(s, w) for n, s, w in zip(self.shape, self.stride, wanted))

    def has_shape(self, shape: Sequence[Any]) -> bool:
        """Return whether its shape is known to be the given one."""
        return len(self.shape) == len(shape) and all(map(same, self.shape, shape))

    def at(self, index: Sequence[str]) -> str:
        """Return the element at an index, one C expression per dimension."""
        terms = [] if self.offset == 0 else [size(self.offset)]
        for place, stride in zip(index, self.stride):
            if place == "0" or stride == 0:
                continue
            terms.append(place if is_one(stride) else f"{_factor(place)} * {size(stride)}")
        return f"{self.root.name}[{' + '.join(terms) or '0'}]"

    def arranged(self, shape: Sequence[Any], stride: Sequence[Any], offset: Any = None) -> Buffer:
        """Return a view of the same memory."""
        exact = tuple(map(expression, shape)), tuple(map(expression, stride))
        return replace(self, shape=exact[0], stride=exact[1], offset=self.offset if offset is None else offset)

    def reshaped(self, shape: Sequence[Any]) -> Optional[Buffer]:
        """Return a view of another shape, ``None`` if no view is known to exist."""
        if self.is_contiguous:
            return self.arranged(shape, contiguous(shape))
        old = [(n, s) for n, s in zip(self.shape, self.stride) if not is_one(n)]
        wanted = [expression(n) for n in shape]
        strides: list[Any] = []
        position = 0
        for n in wanted:  # only dimensions of size 1 come and go
            if is_one(n):
                strides.append(sympy.Integer(1))
            elif position < len(old) and same(old[position][0], n):
                strides.append(old[position][1])
                position += 1
            else:
                return None
        return self.arranged(wanted, strides) if position == len(old) else None


def contiguous(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Return the strides of a tensor that lies row by row."""
    strides: list[Any] = []
    step: Any = sympy.Integer(1)
    for n in reversed(shape):
        strides.insert(0, step)
        step = sympy.expand(step * expression(n))
    return tuple(strides)


def elements(shape: Sequence[Any]) -> Any:
    """Return how many elements a shape has."""
    return sympy.expand(sympy.Mul(*map(expression, shape)))


def _factor(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
