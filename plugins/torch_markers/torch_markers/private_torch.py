"""The private names of torch that torch-markers uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "C": "torch._C",
    "DisableTorchFunction": "torch._C:DisableTorchFunction",
    "TensorBase": "torch._C:TensorBase",
    "autograd": "torch._C:_autograd",
    "current_graph_task_id": "torch._C:_current_graph_task_id",
    "get_function_stack_at": "torch._C:_get_function_stack_at",
    "is_tracing": "torch._C:_is_tracing",
    "len_torch_function_stack": "torch._C:_len_torch_function_stack",
    "pop_torch_function_stack": "torch._C:_pop_torch_function_stack",
    "profiler": "torch._C:_profiler",
    "push_on_torch_function_stack": "torch._C:_push_on_torch_function_stack",
    "execution_engine": "torch.autograd:Variable._execution_engine",
}

__getattr__ = private_name_getter(NAMES, "torch-markers")
