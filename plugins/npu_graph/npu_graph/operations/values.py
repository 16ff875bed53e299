"""The values of the nodes of a graph, from ``node.meta["val"]`` of aot_autograd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch
from torch.fx import Node

__all__ = [
    "describe_symbols",
    "expression",
    "free_symbols",
    "is_scalar",
    "is_unbacked",
    "line_of",
    "run_fake",
    "tensors_in",
    "value_of",
]


def value_of(node: Node) -> Any:
    """Return the value of a node: a fake tensor, a symbolic number, a list of them, ``None`` when unknown."""
    return node.meta.get("val")


def is_scalar(value: Any) -> bool:
    """Return whether a value is a number, symbolic or not."""
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def expression(number: Any) -> sympy.Expr:
    """Return a number as an expression of symbols."""
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return number.node.expr
    return sympy.Integer(number) if type(number) is int else sympy.sympify(number)  # most are, and sympify is slow


def free_symbols(value: Any) -> set[sympy.Symbol]:
    """Return the symbols that shape and strides of the tensors in a value depend on, or that a number does."""
    if is_scalar(value):
        return set(expression(value).free_symbols)
    return {
        symbol
        for tensor in tensors_in(value)
        for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        if isinstance(number, torch.SymInt)
        for symbol in expression(number).free_symbols
    }


def describe_symbols(symbols: Mapping[sympy.Symbol, Node]) -> tuple[str, ...]:
    """Return the symbols whose values nodes have, each with the size that it stands for: ``s77: L['x'].size()[0]``."""
    return tuple(f"{symbol}: {_source_of(symbol, node)}" for symbol, node in sorted(symbols.items(), key=str))


def _source_of(symbol: sympy.Symbol, node: Node) -> str:
    """As dynamo names it, where it knows; else by the node."""
    value = value_of(node)
    sources = value.node.shape_env.var_to_sources.get(symbol) if isinstance(value, torch.SymInt) else None
    if sources:
        return str(sources[0].name)
    return f"dimension {node.args[1]} of {node.args[0]}" if node.op == "call_function" else node.name


def is_unbacked(symbol: sympy.Symbol) -> bool:
    """Return whether a symbol stands for a size that depends on data."""
    from npu_graph.private_torch import SymT, symbol_is_type

    return bool(symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)))


def run_fake(node: Node) -> Any:
    """Run the operator of a node on the values of its arguments, and note the result as the value of the node."""
    arguments, keywords = torch.fx.node.map_arg((node.args, node.kwargs), value_of)
    modes = {tensor.fake_mode for argument in node.all_input_nodes for tensor in tensors_in(value_of(argument))}
    for mode in modes:
        with mode:
            node.meta["val"] = node.target(*arguments, **keywords)
            return node.meta["val"]
    node.meta["val"] = node.target(*arguments, **keywords)
    return node.meta["val"]


def line_of(node: Node) -> str:
    """Return the line of the model that a node comes from, ``model.py:12``; empty when dynamo did not note it."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    places = [line for line in lines if line.startswith("File ")]
    if not places:
        return ""
    file, _, rest = places[-1].removeprefix('File "').partition('", line ')
    return f"{file.rpartition('/')[2]}:{rest.partition(',')[0]}"
