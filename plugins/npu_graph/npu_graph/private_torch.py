"""The private names of torch that npu-graph uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "core_aten_decompositions": "torch._decomp:core_aten_decompositions",
    "decomposition_table": "torch._decomp:decomposition_table",
    "aot_autograd": "torch._dynamo.backends.common:aot_autograd",
    "registry": "torch._dynamo.backends.registry",
    "utils": "torch._dynamo.utils",
    "HigherOrderOperator": "torch._ops:HigherOrderOperator",
    "OpOverload": "torch._ops:OpOverload",
    "ELEMENTWISE_TYPE_PROMOTION_KIND": "torch._prims_common:ELEMENTWISE_TYPE_PROMOTION_KIND",
    "compute_elementwise_output_logical_to_physical_perm": (
        "torch._prims_common:compute_elementwise_output_logical_to_physical_perm"
    ),
    "elementwise_dtypes": "torch._prims_common:elementwise_dtypes",
    "make_contiguous_strides_for": "torch._prims_common:make_contiguous_strides_for",
    "BoxedCodeGen": "torch.fx.graph:_BoxedCodeGen",
    "PythonPrinter": "torch.utils._sympy.printers:PythonPrinter",
    "SymT": "torch.utils._sympy.symbol:SymT",
    "symbol_is_type": "torch.utils._sympy.symbol:symbol_is_type",
}

__getattr__ = private_name_getter(NAMES, "npu-graph")
