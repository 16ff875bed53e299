"""The vendor ``c``: every subgraph as one C function, for the compiler of the system and OpenMP if it has it."""

from __future__ import annotations

from npu_graph.backend import Backend
from npu_graph.c.vendor import CVendor

__all__ = ["VENDOR", "CVendor", "backend"]

VENDOR = CVendor()

#: For ``torch.compile(backend="patchcore_c")``.
backend = Backend(VENDOR.name)
