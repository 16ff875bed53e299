"""Vendors to try the conformance suite on: one that runs torch itself, right or with an error planted in it."""

TORCH_VENDOR = '''
import operator

import patchcore as pc
from npu_graph import Vendor


class Torch(Vendor):
    """Runs each operator as torch does, so that it is right by construction."""

    name = "plain"
    summary = "torch itself"
    dtypes = frozenset({"float32", "float16", "bool"})

    def setup(self):
        from torch.ops import aten

        for overload in [aten.add.Tensor, aten.tanh.default, aten.sigmoid.default, aten.sum.dim_IntList]:
            self.conversion(overload)(lambda operation, **arguments: None)

    def generate(self, subgraph):
        self.graphs = getattr(self, "graphs", {})
        source = str(subgraph.graph.graph) + "".join(map(str, (each.value.stride() for each in subgraph.inputs)))
        self.graphs[source] = subgraph.graph
        return source

    def load(self, source):
        graph = self.graphs[source.read_text()]

        def kernel(*tensors):
            inputs = tensors[: sum(node.op == "placeholder" for node in graph.graph.nodes)]
            found = Run(graph, self.wrong).run(*inputs)
            return list(found) if isinstance(found, (tuple, list)) else [found]

        return kernel

    def wrong(self, node, value, inputs):
        return value

    def to_array(self, tensor):
        return tensor

    def to_tensor(self, array, spec):
        return array.clone()


def Run(graph, change):
    import torch

    class Changing(torch.fx.Interpreter):
        def run_node(self, node):
            value = super().run_node(node)
            return change(str(node.target), value, node) if node.op == "call_function" else value

    return Changing(graph)


VENDOR = Torch()


@pc.hookimpl(optionalhook=True)
def register_vendors():
    return [VENDOR]
'''

#: A tanh that is off by a thousandth in float32.
WRONG_OPERATOR = (
    TORCH_VENDOR
    + """

def wrong(operator, value, node):
    import torch

    return value * 1.001 if operator == "aten.tanh.default" and value.dtype is torch.float32 else value


VENDOR.wrong = wrong
"""
)

#: A sum that goes wrong where some size is a symbol.
WRONG_WHEN_DYNAMIC = (
    TORCH_VENDOR
    + """

def wrong(operator, value, node):
    import torch

    symbolic = any(isinstance(size, torch.SymInt) for size in node.args[0].meta["val"].shape)
    return value + 1 if operator == "aten.sum.dim_IntList" and symbolic and value.dtype.is_floating_point else value


VENDOR.wrong = wrong
"""
)
