"""From a graph of dynamo to kernels of a vendor, a module per step; :mod:`npu_graph.pipeline.compiling` orders them."""

from __future__ import annotations

from npu_graph.pipeline.compiling import compile_graph

__all__ = ["compile_graph"]
