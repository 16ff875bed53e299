"""Conversions of matrix products."""

import torch

from acme_graph.text import sizes
from npu_graph import inference

aten = torch.ops.aten


def declare(vendor):
    """Declare the conversions of this module."""

    @vendor.conversion(aten.mm.default, aten.bmm.default, infer=inference.matrix_product)
    def matrix_product(operation, self, mat2):
        batch = sizes(self.shape[:-2]) or ["1"]
        return f"mm({self}, {mat2}, {', '.join([*batch, *sizes(self.shape[-2:]), *sizes(mat2.shape[-1:])])})"
