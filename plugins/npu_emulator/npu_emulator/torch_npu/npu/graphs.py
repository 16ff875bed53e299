"""Graphs, which replay recorded launches of the hardware's kernels: there are none here."""

from __future__ import annotations

from npu_emulator.torch_npu.npu._refusals import refusing_class, refusing_function

__all__ = [
    "NPUGraph",
    "NpuGraphOpHandler",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "register_npu_graph_handler",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]

_NO_GRAPHS = "a graph replays launches of the hardware's kernels, and emulated kernels are not launched"


def is_current_stream_capturing() -> bool:
    """Return whether the current stream is recorded into a graph: none ever is."""
    return False


NPUGraph = refusing_class("torch.npu.NPUGraph", _NO_GRAPHS)
NpuGraphOpHandler = refusing_class("torch.npu.NpuGraphOpHandler", _NO_GRAPHS)
graph = refusing_class("torch.npu.graph", _NO_GRAPHS)
graph_pool_handle = refusing_function("torch.npu.graph_pool_handle", _NO_GRAPHS)
graph_task_group_begin = refusing_function("torch.npu.graph_task_group_begin", _NO_GRAPHS)
graph_task_group_end = refusing_function("torch.npu.graph_task_group_end", _NO_GRAPHS)
graph_task_update_begin = refusing_function("torch.npu.graph_task_update_begin", _NO_GRAPHS)
graph_task_update_end = refusing_function("torch.npu.graph_task_update_end", _NO_GRAPHS)
make_graphed_callables = refusing_function("torch.npu.make_graphed_callables", _NO_GRAPHS)
register_npu_graph_handler = refusing_function("torch.npu.register_npu_graph_handler", _NO_GRAPHS)
super_kernel_scope_begin = refusing_function("torch.npu.super_kernel_scope_begin", _NO_GRAPHS)
super_kernel_scope_end = refusing_function("torch.npu.super_kernel_scope_end", _NO_GRAPHS)
