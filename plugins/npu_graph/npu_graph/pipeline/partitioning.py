"""Cuts a graph into the subgraphs that a vendor takes and the parts that stay eager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from npu_graph import private_torch
from npu_graph.operations.subgraph import symbols_in
from npu_graph.pipeline.decompositions import is_random

__all__ = ["Part", "partition"]

_PREFIX = "subgraph_"
#: The argument by which a node waits for another one, while a graph is cut.
_AFTER = "_after"


class Part(NamedTuple):
    """A subgraph in its place.

    Args:
        name: of the module, and of the code that runs there.
        call: the node that calls the module.
        module: its nodes.
        symbols: that its sizes depend on; the call passes their values after the inputs.
        nodes: names of the nodes in the whole graph that went there.
    """

    name: str
    call: Node
    module: GraphModule
    symbols: tuple[sympy.Symbol, ...]
    nodes: tuple[str, ...]


class _Support(OperatorSupportBase):
    def __init__(self, verdicts: Mapping[Node, Optional[str]]) -> None:
        self._verdicts = verdicts

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return self._verdicts.get(node, "") is None


def partition(
    graph: GraphModule, verdicts: Mapping[Node, Optional[str]], symbols: Mapping[sympy.Symbol, Node]
) -> list[Part]:
    """Make a module of each group of nodes that can run as one; change ``graph`` so that it calls them.

    Args:
        graph: changed in place.
        verdicts: ``None`` for nodes that the vendor takes.
        symbols: the nodes that have the values of symbols.
    """
    _chain(graph, verdicts)
    partitioner = CapabilityBasedPartitioner(graph, _Support(verdicts), allows_single_node_partition=True)
    partitions = partitioner.propose_partitions()
    members = [tuple(node.name for node in each.nodes) for each in partitions]
    partitioner.fuse_partitions(partitions, prefix=_PREFIX)
    _unchain(graph)
    _writes_last(graph)
    named = {node.name: node for node in graph.graph.nodes}  # fusing copies nodes
    calls = {node.target: node for node in graph.graph.nodes if node.op == "call_module"}
    parts = []
    for number, nodes in enumerate(members):
        name = f"{_PREFIX}{number}"
        module = graph.get_submodule(name)
        assert isinstance(module, GraphModule)
        needed = tuple(symbols_in(module))
        call = calls[name]
        call.args = (*call.args, *(named[symbols[symbol].name] for symbol in needed))
        parts.append(Part(name, call, module, needed, nodes))
    return parts


def _chain(graph: GraphModule, verdicts: Mapping[Node, Optional[str]]) -> None:
    """Keep operators that draw random numbers, or have another effect, in their order.

    Nodes that do not depend on each other are sorted anew around subgraphs, and would draw the numbers of each other.
    """
    before: Optional[Node] = None
    for node in graph.graph.nodes:
        if verdicts.get(node) is not None and _has_effects(node):
            if before is not None:
                node.kwargs = {**node.kwargs, _AFTER: before}
            before = node


def _unchain(graph: GraphModule) -> None:
    for node in graph.graph.nodes:
        if _AFTER in node.kwargs:
            node.kwargs = {name: value for name, value in node.kwargs.items() if name != _AFTER}


def _has_effects(node: Node) -> bool:
    is_opaque = isinstance(node.target, private_torch.HigherOrderOperator)  # a branch, a loop: whatever it has inside
    return is_opaque or is_random(node.target) or node.is_impure()


def _writes_last(graph: GraphModule) -> None:
    """Move writes into inputs, with which aot_autograd ends some graphs, behind the subgraphs that read the inputs."""
    output = next(iter(reversed(graph.graph.nodes)))
    for node in list(graph.graph.nodes):
        if isinstance(node.target, private_torch.OpOverload) and node.target._schema.is_mutable and not node.users:
            output.prepend(node)
