"""Type promotion, written into the graph: after this every element-wise operator has operands of one dtype.

torch promotes by category and dimension (a float tensor of no dimensions does not widen one of some; Python numbers
widen least), which no compiler's own rules do. The operators of torch cast in the same way themselves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from npu_graph.operations.values import is_scalar, run_fake, value_of
from npu_graph.vendor import Vendor

__all__ = ["promote"]

aten = torch.ops.aten
CAST = torch.ops.prims.convert_element_type.default

#: Arguments that have a dtype of their own.
_CONDITIONS = {aten.where.self: (0,), aten.masked_fill.Scalar: (1,), aten.masked_fill.Tensor: (1,)}
_CASTS = (aten._to_copy.default, aten.copy.default)


def promote(graph: GraphModule, vendor: Vendor) -> None:
    """Cast the operands of the element-wise operators that a vendor converts to the dtype that torch computes in."""
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and _is_elementwise(node) and vendor.find(node.target):
            _promote(graph, node)


def _is_elementwise(node: Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ()) and node.target not in _CASTS


def _promote(graph: GraphModule, node: Node) -> None:
    result = value_of(node)
    if not isinstance(result, torch.Tensor):
        return
    conditions = _CONDITIONS.get(node.target, ())
    operands = [argument for position, argument in enumerate(node.args) if position not in conditions]
    values = [value_of(operand) if isinstance(operand, Node) else operand for operand in operands]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not tensors or any(tensor.is_complex() for tensor in tensors):  # abs of these is not complex
        return
    dtype = result.dtype if result.dtype is not torch.bool else _common(values)

    def cast(operand: Any) -> Any:
        value = value_of(operand) if isinstance(operand, Node) else None
        if not isinstance(value, torch.Tensor) or value.dtype is dtype:
            return operand
        with graph.graph.inserting_before(node):
            made = graph.graph.call_function(CAST, (operand, dtype))
        made.meta["stack_trace"] = node.meta.get("stack_trace")
        run_fake(made)
        return made

    node.args = tuple(
        argument if position in conditions else cast(argument) for position, argument in enumerate(node.args)
    )


def _common(values: list[Any]) -> torch.dtype:
    """The dtype that operands are compared in."""
    from npu_graph.private_torch import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    numbers = [value for value in values if isinstance(value, torch.Tensor) or is_scalar(value)]
    # the computation may be wider: float32 for floats of 16 bits, which comparisons of torch do not do
    _, common = elementwise_dtypes(*numbers, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    return common
