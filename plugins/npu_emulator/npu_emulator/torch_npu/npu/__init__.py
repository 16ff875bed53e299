"""``torch.npu``: the runtime of the emulated device.

It has the 142 public names that ``torch_npu.npu.__all__`` had in the 2.6 to 2.9 releases of torch_npu (repository
Ascend/pytorch, ``torch_npu/npu/__init__.py``, commits a145e51 and 0037c39 together). Each works as its docstring says,
or raises :class:`npu_emulator.errors.NotEmulated`; names that are not known raise ``AttributeError``.
"""

# ruff: noqa: F401, F403, F405  this module is where the names of its submodules meet, and each says its own in __all__

from __future__ import annotations

from typing import Any

from npu_emulator.torch_npu.npu import (
    _initialization,
    _utils,
    amp,
    autocast_utils,
    graphs,
    memory,
    npu_config,
    random,
    streams,
    utils,
)
from npu_emulator.torch_npu.npu._current_streams import *
from npu_emulator.torch_npu.npu._devices import *
from npu_emulator.torch_npu.npu._hardware import *
from npu_emulator.torch_npu.npu._initialization import _is_in_bad_fork, _lazy_call, _lazy_init, init, is_initialized
from npu_emulator.torch_npu.npu._mstx import mstx
from npu_emulator.torch_npu.npu._refusals import missing_name
from npu_emulator.torch_npu.npu._storage_types import *
from npu_emulator.torch_npu.npu._tensor_types import *
from npu_emulator.torch_npu.npu._utils import _get_device_index
from npu_emulator.torch_npu.npu.autocast_utils import *
from npu_emulator.torch_npu.npu.deterministic import *
from npu_emulator.torch_npu.npu.graphs import *
from npu_emulator.torch_npu.npu.memory import *
from npu_emulator.torch_npu.npu.npu_config import *
from npu_emulator.torch_npu.npu.random import *
from npu_emulator.torch_npu.npu.streams import *
from npu_emulator.torch_npu.npu.utils import clear_npu_overflow_flag, get_npu_overflow_flag

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CharStorage",
    "CharTensor",
    "CubeMathType",
    "DoubleStorage",
    "DoubleTensor",
    "Event",
    "ExternalEvent",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "MemPool",
    "MemPoolContext",
    "NPUGraph",
    "NPUPluggableAllocator",
    "NpuGraphOpHandler",
    "ShortStorage",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "SyncLaunchStream",
    "are_compatible_impl_enabled",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "change_current_allocator",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "config",
    "conv",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "disable_deterministic_with_backward",
    "empty_cache",
    "empty_virt_addr_cache",
    "enable_deterministic_with_backward",
    "finalize_dump",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_limit",
    "get_device_name",
    "get_device_properties",
    "get_mm_bmm_format_nd",
    "get_npu_overflow_flag",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_limit",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "init_dump",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_jit_compile_false",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "matmul",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "mstx",
    "npurt",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "register_npu_graph_handler",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "reset_stream_limit",
    "restart_device",
    "seed",
    "seed_all",
    "set_aoe",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_compile_mode",
    "set_deterministic_level",
    "set_device",
    "set_device_limit",
    "set_dump",
    "set_mm_bmm_format_nd",
    "set_op_timeout_ms",
    "set_option",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_stream_limit",
    "set_sync_debug_mode",
    "stop_device",
    "stream",
    "stress_detect",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
    "synchronize",
    "use_compatible_impl",
    "use_mem_pool",
    "utilization",
]


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random._generators()
    if name == "_initialized":  # torch.utils.checkpoint keeps the random states of the device if so
        return _initialization._initialized
    raise missing_name("torch_npu.npu", name)
