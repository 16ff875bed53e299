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
        return f"div({reduce('sum', self, dim)}, {product(split(self, dim)[1])})"

    @vendor.conversion(aten.amax.default, infer=inference.reduction)
    def peak(operation, self, dim, keepdim):
        return reduce("peak", self, dim)


def split(tensor, dim):
    """Return the sizes that stay and those that go; no dimensions, or an empty list, means all of them."""
    gone = {each % tensor.ndim for each in ([dim] if isinstance(dim, int) else dim or range(tensor.ndim))}
    stay = [size for dimension, size in enumerate(tensor.shape) if dimension not in gone]
    return stay, [size for dimension, size in enumerate(tensor.shape) if dimension in gone]


def reduce(instruction, tensor, dim):
    """Return the instruction on rows of what is reduced."""
    stay, go = split(tensor, dim)
    gone = {each % tensor.ndim for each in ([dim] if isinstance(dim, int) else dim or range(tensor.ndim))}
    order = [each for each in range(tensor.ndim) if each not in gone] + sorted(gone)
    steps = strides(tensor.shape)
    moved = move(tensor, stay + go, [steps[each] for each in order]) if order != sorted(order) else tensor
    return f"{instruction}({moved}, {product(stay)}, {product(go)})"
