"""From a graph of dynamo to kernels of a vendor: one module per step; :mod:`npu_graph.pipeline.compiling` has the order."""

from __future__ import annotations

from npu_graph.pipeline.compiling import compile_graph

__all__ = ["compile_graph"]
