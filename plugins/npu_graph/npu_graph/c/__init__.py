"""The vendor ``c``: every subgraph becomes one C function, compiled by the system's compiler, with OpenMP if it can."""

from __future__ import annotations

from npu_graph.backend import Backend
from npu_graph.c.vendor import CVendor

__all__ = ["VENDOR", "CVendor", "backend"]

VENDOR = CVendor()

#: For ``torch.compile(backend="patchcore_c")``.
backend = Backend(VENDOR.name)
