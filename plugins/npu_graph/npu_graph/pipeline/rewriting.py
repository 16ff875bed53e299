"""Patterns of a vendor: several operators become one that it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.utils.matcher_utils import InternalMatch
from torch.fx.subgraph_rewriter import replace_pattern_with_filters

from npu_graph.errors import RewriteError
from npu_graph.operations.values import run_fake, value_of
from npu_graph.vendor import Rewrite, Vendor, answer

__all__ = ["rewrite"]

aten = torch.ops.aten
#: Operators that have another name, under which a vendor converts them.
_OTHER_NAMES = {aten.true_divide.Tensor: aten.div.Tensor}


def rewrite(graph: GraphModule, vendor: Vendor) -> None:
    """Replace the patterns that the vendor declares by its own operators, in the order of declaration.

    Raises:
        RewriteError: a condition or a replacement fails, or has another shape or dtype than its pattern.
    """
    for node in graph.graph.nodes:
        node.target = _OTHER_NAMES.get(node.target, node.target)
    for each in vendor.declarations.rewrites:
        _rewrite(graph, vendor, each)


def _rewrite(graph: GraphModule, vendor: Vendor, declared: Rewrite) -> None:
    values = {node: value_of(node) for node in graph.graph.nodes}
    lines = {node: node.meta.get("stack_trace") for node in graph.graph.nodes}
    where = f"vendor {vendor.name}: the rewrite {declared.name} ({declared.provider})"

    def applies(match: InternalMatch, whole: Graph, pattern: Graph) -> bool:
        given = [value_of(each) if isinstance(each, Node) else each for each in match.placeholder_nodes]
        if declared.when is None:
            return all(isinstance(value, torch.Tensor) for value in given)
        try:
            return answer(declared.when(*given), "no") is None
        except Exception as error:
            raise RewriteError(f"{where}: its condition failed: {type(error).__name__}: {error}") from error

    for found in replace_pattern_with_filters(graph, declared.pattern, declared.replacement, [applies]):
        replaced = found.nodes_map[found.anchor]
        for node in found.replacements:
            node.meta.setdefault("stack_trace", lines.get(replaced))
            if node.op == "call_function":
                _run(node, where)
        expected, got = values.get(replaced), value_of(found.replacements[-1])
        if _kinds(expected) != _kinds(got):
            raise RewriteError(
                f"{where} gives {_kinds(got)} in the place of {_kinds(expected)}; a replacement must have the shape "
                f"and dtype of its pattern"
            )


def _run(node: Node, where: str) -> Any:
    try:
        return run_fake(node)
    except Exception as error:
        message = str(error).partition("\n")[0]
        raise RewriteError(f"{where}: {node.target} does not take what it is given: {message}") from error


def _kinds(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).partition('.')[2]}[{', '.join(map(str, value.shape))}]"
    return [_kinds(item) for item in value] if isinstance(value, Iterable) else type(value).__name__
