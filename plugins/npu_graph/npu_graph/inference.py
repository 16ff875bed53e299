"""Shape and dtype of common operators, from those of their operands: for ``Vendor.conversion(infer=...)``.

Each function takes an :class:`~npu_graph.operations.subgraph.Operation` and returns ``(shape, dtype)``. They hold for
graphs whose type promotion has been written out, and give the result type of a kernel that follows its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu_graph.operations.subgraph import Operation

__all__ = ["broadcast", "elementwise", "matrix_product", "reduction", "test"]

Inferred = tuple[tuple[Any, ...], Any]


def elementwise(operation: Operation) -> Inferred:
    """Operands of one dtype, broadcast."""
    return broadcast([tensor.shape for tensor in _taken(operation)]), _taken(operation)[0].dtype


def test(operation: Operation) -> Inferred:
    """Operands of one dtype, broadcast; the result is boolean."""
    import torch

    return broadcast([tensor.shape for tensor in _taken(operation)]), torch.bool


def reduction(operation: Operation) -> Inferred:
    """Argument ``dim`` (one, several, none for all) of ``self`` is gone, or 1 under ``keepdim``; the dtype stays."""
    (tensor, *_) = _taken(operation)
    dim, rank = operation.arguments.get("dim"), len(tensor.shape)
    listed = dim if isinstance(dim, (list, tuple)) else [] if dim is None else [dim]
    gone = {int(each) % rank for each in listed} if rank and listed else set(range(rank))
    if operation.arguments.get("keepdim"):
        return tuple(1 if position in gone else size for position, size in enumerate(tensor.shape)), tensor.dtype
    return tuple(size for position, size in enumerate(tensor.shape) if position not in gone), tensor.dtype


def matrix_product(operation: Operation) -> Inferred:
    """The last two operands: ``[..., n, k]`` and ``[..., k, m]`` give ``[..., n, m]``."""
    one, other = _taken(operation)[-2:]
    return (*one.shape[:-1], other.shape[-1]), one.dtype


def broadcast(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the shape that shapes broadcast to."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((size for size in column if not _is_one(size)), 1) for column in zip(*padded))


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _taken(operation: Operation) -> list[Any]:
    return [operand.value for operand in operation.operands if operand.is_tensor]
