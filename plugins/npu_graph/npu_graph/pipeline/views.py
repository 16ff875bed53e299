"""Views that a graph gives: torch makes them, of memory that a kernel gives or takes, so that no kernel copies them."""

from __future__ import annotations

from typing import Optional

import torch
from torch.fx import GraphModule, Node

__all__ = ["VIEW", "give_views"]

#: Why a view that a graph gives is not in a subgraph.
VIEW = "a view of what a kernel gives or takes"


def give_views(graph: GraphModule, verdicts: dict[Node, Optional[str]]) -> None:
    """Have torch make the views that a graph gives, after its kernels.

    A forward graph gives its backward many: a weight transposed, an output under another name. Everything that a kernel
    gives has memory of its own, so a kernel would copy each of them. Views that a kernel reads stay in the kernel, too.

    Args:
        graph: changed in place.
        verdicts: ``None`` for nodes that the vendor takes; changed with the graph.
    """
    output = next(iter(reversed(graph.graph.nodes)))
    made: dict[Node, Node] = {}

    def outside(node: Node) -> Node:
        if verdicts.get(node, VIEW) is not None or not getattr(node.target, "is_view", False):
            return node
        if node not in made:
            base, *_ = node.args
            assert isinstance(base, Node), f"{node.target} takes what it views first"
            below = outside(base)
            with graph.graph.inserting_before(output):
                made[node] = graph.graph.node_copy(node, lambda given: below if given is base else given)
            verdicts[made[node]] = VIEW
        return made[node]

    output.args = torch.fx.node.map_arg(output.args, outside)
    for node in reversed(made):  # a view of a view comes after the view that it is made of
        if not node.users:
            graph.graph.erase_node(node)
            del verdicts[node]
