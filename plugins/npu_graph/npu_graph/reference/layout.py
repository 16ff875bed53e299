"""Conversions of operators that arrange elements anew: views, joins, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npu_graph.conditions import does_not_crop
from npu_graph.operations.subgraph import Operand, Operation
from npu_graph.reference import text
from npu_graph.reference.text import cast, sizes
from npu_graph.vendor import Vendor

__all__ = ["declare"]

aten = torch.ops.aten
#: The number for an open end in torch.
END = 2**63 - 1


def declare(vendor: Vendor) -> None:
    """Declare the conversions of this module for a vendor whose operands are NumPy arrays."""

    @vendor.conversion(aten.view.default, aten._unsafe_view.default)
    def reshape(operation: Operation, self: Operand, size: Sequence[Any]) -> str:
        return f"np.reshape({self}, {sizes(size)})"

    @vendor.conversion(aten.alias.default)
    def alias(operation: Operation, self: Operand) -> str:
        return str(self)

    @vendor.conversion(aten.permute.default)
    def permute(operation: Operation, self: Operand, dims: Sequence[int]) -> str:
        return f"np.transpose({self}, {tuple(dims)})"

    @vendor.conversion(aten.expand.default)
    def expand(operation: Operation, self: Operand, size: Sequence[Any], implicit: bool) -> str:
        return f"numerics.expand({self}, {sizes(size)})"

    @vendor.conversion(aten.unsqueeze.default)
    def unsqueeze(operation: Operation, self: Operand, dim: int) -> str:
        return f"np.expand_dims({self}, {dim})"

    @vendor.conversion(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
    def squeeze(operation: Operation, self: Operand, dim: Any = None) -> str:
        listed = range(self.ndim) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
        candidates = {int(each) % self.ndim for each in listed} if self.ndim else set()
        alone = tuple(
            axis for axis in sorted(candidates) if isinstance(self.shape[axis], int) and self.shape[axis] == 1
        )
        return f"np.squeeze({self}, axis={alone})"

    @vendor.conversion(aten.slice.Tensor)
    def take_slice(operation: Operation, self: Operand, dim: int, start: Any, end: Any, step: Any) -> str:
        return f"{self}[{_index(self, dim, _range(start, end, step))}]"

    @vendor.conversion(aten.select.int)
    def select(operation: Operation, self: Operand, dim: int, index: Any) -> str:
        return f"{self}[{_index(self, dim, str(index))}]"

    @vendor.conversion(aten.slice_scatter.default)
    def put_slice(operation: Operation, self: Operand, src: Operand, dim: int, start: Any, end: Any, step: Any) -> str:
        return f"numerics.put({self}, np.s_[{_index(self, dim, _range(start, end, step))}], {src})"

    @vendor.conversion(aten.select_scatter.default)
    def put_selected(operation: Operation, self: Operand, src: Operand, dim: int, index: Any) -> str:
        return f"numerics.put({self}, np.s_[{_index(self, dim, str(index))}], {src})"

    @vendor.conversion(aten.cat.default)
    def concatenate(operation: Operation, tensors: Sequence[Operand], dim: int) -> str:
        # an empty tensor of one dimension fits everywhere in torch, whatever the others are
        whole = [each for each in tensors if not (each.ndim == 1 and len(operation.shape) > 1)]
        listed = ", ".join(cast(each, operation.dtype) for each in whole)
        return f"np.concatenate([{listed}], axis={dim})"

    @vendor.conversion(aten.flip.default)
    def flip(operation: Operation, self: Operand, dims: Sequence[int]) -> str:
        return f"np.flip({self}, {tuple(dims)})"

    @vendor.conversion(aten.diagonal.default)
    def diagonal(operation: Operation, self: Operand, offset: int, dim1: int, dim2: int) -> str:
        return f"np.diagonal({self}, {offset}, {dim1}, {dim2})"

    @vendor.conversion(aten.constant_pad_nd.default, when=does_not_crop)
    def constant_pad(operation: Operation, self: Operand, pad: Sequence[Any], value: Any) -> str:
        pairs = list(zip(pad[::2], pad[1::2]))[::-1]  # torch begins with the last dimension
        widths = [(0, 0)] * (self.ndim - len(pairs)) + pairs
        listed = ", ".join(f"({before}, {after})" for before, after in widths)
        return f"np.pad({self}, [{listed}], constant_values={text.value(value, operation.dtype)})"


def _range(start: Any, end: Any, step: Any) -> str:
    first, last = "" if start is None else start, "" if end is None or end == END else end
    return f"{first}:{last}" if step == 1 else f"{first}:{last}:{step}"


def _index(tensor: Operand, dim: int, at: str) -> str:
    """The index that has ``at`` in one dimension and everything in those before."""
    return ":, " * (dim % tensor.ndim) + at
