"""What can go wrong between a graph and a kernel, as exceptions.

GraphError
├── UnknownVendor     a backend's vendor is contributed by no plugin
├── RewriteError      a rewrite changes shape or dtype of what it replaces
├── InferenceError    a conversion infers another shape or dtype than torch
├── ConversionError   a conversion or the code generation of a vendor failed
├── CompileError      a vendor's compiler failed
├── LaunchError       a kernel returned something else than the graph says
└── DeviationError    the precision check found a subgraph that deviates from eager
"""

from __future__ import annotations

from patchcore.errors import PatchcoreError

__all__ = [
    "CompileError",
    "ConversionError",
    "DeviationError",
    "GraphError",
    "InferenceError",
    "LaunchError",
    "RewriteError",
    "UnknownVendor",
]


class GraphError(PatchcoreError):
    """Base of the errors of this package."""


class UnknownVendor(GraphError, LookupError):
    """No plugin contributes a vendor of this name."""


class RewriteError(GraphError):
    """What takes the place of a pattern has another shape or dtype than the pattern."""


class InferenceError(GraphError):
    """A conversion infers another shape or dtype than torch does."""


class ConversionError(GraphError):
    """A conversion, or the code generation of a vendor, raised."""


class CompileError(GraphError):
    """A vendor's compiler failed on generated source, or what it made cannot be loaded."""


class LaunchError(GraphError):
    """A kernel failed, or returned another number, shape or dtype of tensors than its subgraph has."""


class DeviationError(GraphError):
    """A subgraph computes something else than eager PyTorch."""
