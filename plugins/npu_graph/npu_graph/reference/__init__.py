"""The vendor ``reference``: subgraphs as readable NumPy, on any machine, to compare others with and to learn from."""

from __future__ import annotations

from npu_graph.backend import Backend
from npu_graph.reference.vendor import ReferenceVendor

__all__ = ["VENDOR", "ReferenceVendor", "backend"]

VENDOR = ReferenceVendor()

#: For ``torch.compile(backend="patchcore_reference")``.
backend = Backend(VENDOR.name)
