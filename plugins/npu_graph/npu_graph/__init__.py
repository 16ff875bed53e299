"""A ``torch.compile`` backend that hardware vendors extend from the outside.

A vendor is a :class:`Vendor` that a plugin contributes; the pipeline around it is the same for all: dynamo,
aot_autograd, decomposition, rewriting, partitioning by the operators that the vendor converts, a compile job with a
cache, launch. Operators that a vendor does not convert stay eager. Importing this package imports no torch.

``operations/`` holds the data that a vendor reads, ``vendor.py`` the class that a vendor fills in, ``registry.py`` the
vendors that plugins contribute, and ``pipeline/`` the steps that compile a graph, in the order of
``pipeline/compiling.py``; no step knows a vendor. ``reference/`` and ``c/`` are two vendors that use nothing that
another vendor could not. ``conformance/`` holds the tests that every vendor can run. ``cache.py`` keeps kernels,
``housekeeping.py`` removes them, and ``explaining.py`` and the ``cli_*.py`` modules are the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npu_graph.backend import Backend
from npu_graph.errors import (
    CompileError,
    ConversionError,
    DeviationError,
    FallbackWarning,
    GraphError,
    InferenceError,
    LaunchError,
    RewriteError,
    UnknownVendor,
    VendorUnavailable,
)
from npu_graph.recording import GraphRecord, NodeRecord, SubgraphRecord, records
from npu_graph.vendor import Vendor
from npu_graph.version import VERSION

if TYPE_CHECKING:
    from npu_graph.operations.subgraph import Operand, Operation, Subgraph, TensorSpec, size_source

__version__ = VERSION

__all__ = [
    "Backend",
    "CompileError",
    "ConversionError",
    "DeviationError",
    "FallbackWarning",
    "GraphError",
    "GraphRecord",
    "InferenceError",
    "LaunchError",
    "NodeRecord",
    "Operand",
    "Operation",
    "RewriteError",
    "Subgraph",
    "SubgraphRecord",
    "TensorSpec",
    "UnknownVendor",
    "Vendor",
    "VendorUnavailable",
    "records",
    "size_source",
]

#: Public names whose modules need torch.
_LAZY = ("Operand", "Operation", "Subgraph", "TensorSpec", "size_source")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from npu_graph.operations import subgraph

    return getattr(subgraph, name)
