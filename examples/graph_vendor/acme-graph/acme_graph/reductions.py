"""Conversions of reductions. The Acme 1 reduces rows: what is reduced is moved to the end first."""

import torch

from acme_graph.text import move, product, strides
from npu_graph import inference

aten = torch.ops.aten


def declare(vendor):
    """Declare the conversions of this module."""

    @vendor.conversion(aten.sum.dim_IntList, aten.sum.default)
    def add_up(operation, self, dim=None, keepdim=False):
        return reduce("sum", self, dim)

    @vendor.conversion(aten.mean.dim, aten.mean.default, infer=inference.reduction)
    def mean(operation, self, dim=None, keepdim=False):
        _, gone = split(self, dim)
        return f"div({reduce('sum', self, dim)}, {product([self.shape[each] for each in gone])})"

    @vendor.conversion(aten.amax.default, infer=inference.reduction)
    def peak(operation, self, dim, keepdim):
        return reduce("peak", self, dim)


def split(tensor, dim):
    """Return the dimensions that stay and those that go; none, or an empty list, means that all go."""
    listed = [dim] if isinstance(dim, int) else dim or range(tensor.ndim)
    gone = {each % tensor.ndim for each in listed if tensor.ndim}
    return [each for each in range(tensor.ndim) if each not in gone], sorted(gone)


def reduce(instruction, tensor, dim):
    """Return the instruction on rows of what is reduced."""
    stay, gone = split(tensor, dim)
    order, steps = stay + gone, strides(tensor.shape)
    shape = [tensor.shape[each] for each in order]
    rows = tensor if order == sorted(order) else move(tensor, shape, [steps[each] for each in order])
    return f"{instruction}({rows}, {product(shape[: len(stay)])}, {product(shape[len(stay) :])})"
