"""How far a kernel may be from what it replaces, by type."""

from __future__ import annotations

__all__ = ["DTYPES"]

#: The largest difference from the original in float32, as a share of the largest value, of results and gradients.
DTYPES = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}
