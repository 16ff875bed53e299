"""Conversions of views. A view of the same elements in the same order is the same buffer."""

import torch

import patchcore as pc
from acme_graph.text import move, spread, strides

aten = torch.ops.aten


def declare(vendor):
    """Declare the conversions of this module."""

    @vendor.conversion(
        aten.view.default,
        aten._unsafe_view.default,
        aten.unsqueeze.default,
        aten.squeeze,
        aten.alias.default,
        aten.clone.default,
    )
    def same(operation, self, **arguments):
        return str(self)

    @vendor.conversion(aten.expand.default)
    def expand(operation, self, size, implicit):
        return spread(self, operation.shape)

    @vendor.conversion(aten.permute.default)
    def permute(operation, self, dims):
        steps = strides(self.shape)
        return move(self, operation.shape, [steps[dim] for dim in dims])

    @vendor.conversion(aten.select.int, when=lambda operation: begins(operation.arguments["index"]))
    def select(operation, self, dim, index):
        steps = strides(self.shape)
        step = steps.pop(dim % self.ndim)
        return move(self, operation.shape, steps, f"{index} * {step}")

    @vendor.conversion(aten.slice.Tensor, when=lambda operation: begins(operation.arguments["start"] or 0))
    def take_slice(operation, self, dim, start, end, step):
        steps = strides(self.shape)
        first = f"{start or 0} * {steps[dim % self.ndim]}"
        steps[dim % self.ndim] += f" * {step}"
        return move(self, operation.shape, steps, first)


def begins(index):
    """A condition: torch counts negative indices from the end, the Acme 1 does not."""
    return (isinstance(index, int) and index >= 0) or pc.Skip("an index from the end")
