"""Conditions on the calls of common operators that vendors usually have: for ``Vendor.conversion(when=...)``.

Each function takes an :class:`~npu_graph.operations.subgraph.Operation` and returns true, or a ``patchcore.Skip`` that
says why not. Of operators that only differ in how they are written for a vendor, it need not say so again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from npu_graph.vendor import Answer
from patchcore import Skip

if TYPE_CHECKING:
    from npu_graph.operations.subgraph import Operation

__all__ = ["divides_like", "does_not_crop", "has_dimensions", "has_floats", "has_whole_windows"]


def has_floats(operation: Operation) -> Answer:
    """The result is of floating-point numbers."""
    return operation.dtype.is_floating_point or Skip("integers")


def has_dimensions(operation: Operation) -> Answer:
    """The first operand has a dimension."""
    return operation.operands[0].ndim > 0 or Skip("a tensor of no dimensions")


def has_whole_windows(operation: Operation) -> Answer:
    """Floating-point numbers are pooled in windows that end inside the padded image: no ``ceil_mode``."""
    return Skip("ceil_mode") if operation.arguments["ceil_mode"] else has_floats(operation)


def does_not_crop(operation: Operation) -> Answer:
    """Padding is known, and adds elements."""
    known = [size for size in operation.arguments["pad"] if isinstance(size, int)]
    if len(known) < len(operation.arguments["pad"]):
        return Skip("padding that is not known before it runs")
    return all(size >= 0 for size in known) or Skip("negative padding")


def divides_like(language: str) -> Callable[[Operation], Answer]:
    """Return a condition: no division that torch refuses and ``language`` would compute.

    Args:
        language: of the kernels, for the reason: ``"C"``.
    """

    def divides(operation: Operation) -> Answer:
        from npu_graph.operations.subgraph import Operand

        if operation.dtype.is_floating_point:
            return True
        if operation.arguments.get("rounding_mode") == "trunc":
            return Skip("a quotient of integers, rounded to zero")
        divisor = operation.arguments["other"]
        if not isinstance(divisor, Operand) and divisor != 0:
            return True
        return Skip(f"torch refuses to divide integers by zero, {language} does not")

    return divides
