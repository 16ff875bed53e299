"""Numbers in a graph: computed outside subgraphs, from its inputs, so that no kernel has to return one.

A size that leaves a subgraph would have to stay an ``int``, and a subgraph that waits for the size of the result of
another one would be cut in two. aot_autograd gives most sizes as inputs; the others are expressions of those.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from npu_graph.operations.subgraph import size_source
from npu_graph.operations.values import expression, free_symbols, is_scalar, is_unbacked, value_of

__all__ = ["settle_numbers"]


def settle_numbers(graph: GraphModule) -> dict[sympy.Symbol, Node]:
    """Make every number in a graph depend on its inputs alone; return the nodes that have the values of symbols."""
    symbols = _symbols_of_inputs(graph)
    for node in list(graph.graph.nodes):
        value = value_of(node)
        if node.op != "call_function" or not is_scalar(value) or not _asks_a_result(node):
            continue
        needed = sorted(free_symbols(value), key=str)
        if any(is_unbacked(symbol) or symbol not in symbols for symbol in needed):
            continue
        if needed:
            with graph.graph.inserting_before(node):
                made = graph.graph.call_function(_function(value, needed), tuple(symbols[symbol] for symbol in needed))
            made.meta["val"] = value
            node.replace_all_uses_with(made)
        else:
            known = expression(value)
            _replace_by_number(node, int(known) if known.is_integer else float(known))
        graph.graph.erase_node(node)
    return symbols


def _symbols_of_inputs(graph: GraphModule) -> dict[sympy.Symbol, Node]:
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    found: dict[sympy.Symbol, Node] = {}
    for node in inputs:
        if is_scalar(value_of(node)) and isinstance(symbol := expression(value_of(node)), sympy.Symbol):
            found.setdefault(symbol, node)
    if not inputs:
        return found
    with graph.graph.inserting_after(inputs[-1]):
        for node in inputs:
            value = value_of(node)
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                symbol = expression(size)
                if isinstance(symbol, sympy.Symbol) and symbol not in found:
                    found[symbol] = graph.graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
                    found[symbol].meta["val"] = size
    return found


def _asks_a_result(node: Node) -> bool:
    """Return whether a number is taken from a tensor that the graph computes."""
    return any(
        isinstance(value_of(argument), torch.Tensor) and argument.op != "placeholder"
        for argument in node.all_input_nodes
    )


def _function(value: Any, symbols: list[sympy.Symbol]) -> Any:
    import math

    scope: dict[str, Any] = {}
    source = f"def size({', '.join(map(str, symbols))}):\n    return {size_source(value)}"
    exec(source, {"math": math, "torch": torch, "__name__": __name__}, scope)  # fx asks functions for their module
    return scope["size"]


def _replace_by_number(node: Node, number: Any) -> None:
    for user in list(node.users):
        user.args = torch.fx.node.map_arg(user.args, lambda argument: number if argument is node else argument)
        user.kwargs = torch.fx.node.map_arg(user.kwargs, lambda argument: number if argument is node else argument)
