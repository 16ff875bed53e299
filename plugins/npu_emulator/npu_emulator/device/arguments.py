"""The tensors among the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

__all__ = ["tensors_in"]


def tensors_in(arguments: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among ``arguments``, and those in lists and tuples among them."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from tensors_in(argument)
