"""Decides which nodes of a graph the vendor takes, with the reasons against the others."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Optional

import sympy
from torch.fx import GraphModule, Node

from npu_graph import private_torch
from npu_graph.errors import InferenceError
from npu_graph.operations.subgraph import Operation, failed_conversion
from npu_graph.operations.values import expression, free_symbols, is_scalar, is_unbacked, tensors_in, value_of
from npu_graph.options import Options
from npu_graph.pipeline.decompositions import is_random
from npu_graph.vendor import Conversion, Vendor, answer

__all__ = ["NUMBER", "judge"]

#: Why a number is not in a subgraph.
NUMBER = "a number"


def judge(
    graph: GraphModule, vendor: Vendor, options: Options, symbols: Collection[sympy.Symbol]
) -> dict[Node, Optional[str]]:
    """Return for each call why the vendor does not take it, ``None`` where it does.

    Args:
        graph: decomposed, rewritten, promoted.
        vendor: prepared, with all that is declared for it.
        options: may keep operators eager.
        symbols: those whose values kernels can get.

    Raises:
        ConversionError: a condition of the vendor raises.
        InferenceError: a conversion infers another shape or dtype than torch.
    """
    verdicts: dict[Node, Optional[str]] = {}
    for node in graph.graph.nodes:
        if node.op not in ("call_function", "call_method", "call_module"):
            continue
        if node.target is operator.getitem:
            producer = node.args[0]
            verdicts[node] = verdicts.get(producer, "of an input") and f"belongs to {producer}"
        else:
            verdicts[node] = _refusal(node, vendor, options, symbols)
    return verdicts


def _refusal(node: Node, vendor: Vendor, options: Options, symbols: Collection[sympy.Symbol]) -> Optional[str]:
    target = node.target
    if is_scalar(value_of(node)):
        return NUMBER
    if not isinstance(target, private_torch.OpOverload):
        return "not an operator"
    if is_random(target):
        return "random: numbers come from torch's generator"
    if target._schema.is_mutable:
        return "writes into its arguments"
    kept_by = options.kept_by(str(target))
    if kept_by is not None:
        return f"kept eager by {kept_by}"
    conversion = vendor.find(target)
    if conversion is None:
        return "no conversion"
    for value in (value_of(node), *map(value_of, node.all_input_nodes)):
        for symbol in free_symbols(value):
            if is_unbacked(symbol) or symbol not in symbols:
                return f"{'number' if is_scalar(value) else 'size'} {symbol} depends on data"
    operation = Operation.of(node, conversion)
    if conversion.parameters is not None and (extra := sorted(operation.given - conversion.parameters)):
        return f"the conversion takes no {', '.join(extra)}"
    try:
        refusal = answer(vendor.supports(operation), "not supported by the vendor")
        if refusal is None and conversion.when is not None:
            refusal = answer(conversion.when(operation), "not supported by the conversion")
    except Exception as error:
        raise failed_conversion(operation, error) from error
    if refusal is None and conversion.infer is not None:
        _check_inference(vendor, operation, conversion)
    return refusal


def _check_inference(vendor: Vendor, operation: Operation, conversion: Conversion) -> None:
    assert conversion.infer is not None
    try:
        inferred = conversion.infer(operation)
    except Exception as error:
        raise failed_conversion(operation, error) from error
    results = inferred if isinstance(inferred, list) else [inferred]
    for (shape, dtype), tensor in zip(results, tensors_in(operation.value)):
        if dtype is not tensor.dtype or len(shape) != tensor.dim() or any(map(_known_to_differ, shape, tensor.shape)):
            raise InferenceError(
                f"vendor {vendor.name}: the conversion of {operation} from {conversion.provider} infers {dtype} "
                f"{tuple(shape)} for {operation.name}, torch {tensor.dtype} {tuple(tensor.shape)}"
            )


def _known_to_differ(one: object, other: object) -> bool:
    difference = expression(one) - expression(other)
    return bool(difference.is_number and difference != 0)
