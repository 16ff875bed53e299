"""The exceptions between a graph and a kernel.

GraphError
├── UnknownVendor     a backend's vendor is contributed by no plugin
├── VendorUnavailable a vendor cannot be used on this machine, and no other one may stand in for it
├── RewriteError      a rewrite changes the shape or dtype of the replaced operators
├── InferenceError    a conversion infers another shape or dtype than torch
├── ConversionError   a conversion or the code generation of a vendor failed
├── CompileError      a vendor's compiler failed
├── LaunchError       a kernel returned other shapes or dtypes than the graph has
└── DeviationError    the precision check found a subgraph that deviates from eager

FallbackWarning       a vendor stands in for one that is not usable here
"""

from __future__ import annotations

from patchcore import PatchcoreError

__all__ = [
    "CompileError",
    "ConversionError",
    "DeviationError",
    "FallbackWarning",
    "GraphError",
    "InferenceError",
    "LaunchError",
    "RewriteError",
    "UnknownVendor",
    "VendorUnavailable",
]


class GraphError(PatchcoreError):
    """Base of the errors of this package."""


class UnknownVendor(GraphError, LookupError):
    """No plugin contributes a vendor of this name."""


class VendorUnavailable(GraphError):
    """A vendor cannot be used here: it says so itself, and no fallback is named that can."""


class RewriteError(GraphError):
    """The replacement of a pattern has another shape or dtype than the pattern."""


class InferenceError(GraphError):
    """A conversion infers another shape or dtype than torch does."""


class ConversionError(GraphError):
    """A conversion, or the code generation of a vendor, raised."""


class CompileError(GraphError):
    """A vendor's compiler failed on generated source, or its output cannot be loaded."""


class LaunchError(GraphError):
    """A kernel failed, or returned another number, shape or dtype of tensors than its subgraph has."""


class DeviationError(GraphError):
    """A subgraph computes something else than eager PyTorch."""


class FallbackWarning(UserWarning):
    """Graphs are compiled for another vendor than the selected one."""
