"""The rewritten targets of torch and their arguments, as data. Read in torch 2.13.

Names that a version of torch lacks are left out.

Positions are those of callables written in C; those of functions written in Python are read.
"""

from __future__ import annotations

from torch_npu_patches.transfer_to_npu.devices import (
    npu_accelerator,
    npu_backend,
    npu_devices,
    npu_location,
    npu_tensor_type,
)
from torch_npu_patches.transfer_to_npu.wrappers import Argument

__all__ = [
    "ACCELERATOR",
    "AMP",
    "COUNTED",
    "CUDA",
    "CUDA_RENAMED",
    "DATA",
    "DEVICE_CONTEXT",
    "DISTRIBUTED",
    "FACTORIES",
    "FSDP",
    "GENERIC_CLASSES",
    "LOAD",
    "MODULE",
    "PIPELINING",
    "PROFILER",
    "TENSOR",
    "Rows",
]

#: The path of a callable in torch, and its arguments that are rewritten.
Rows = dict[str, tuple[Argument, ...]]

_DEVICE = Argument("device")


def _first(name: str) -> Argument:
    return Argument(name, position=0)


def _of_method(name: str) -> Argument:
    """The first argument after ``self``."""
    return Argument(name, position=1)


#: Functions that make tensors. In all of them the device is passed by keyword.
FACTORIES: Rows = dict.fromkeys(
    (
        *("arange", "as_tensor", "asarray", "empty", "empty_like", "empty_permuted", "empty_quantized"),
        *("empty_strided", "eye", "from_file", "full", "full_like", "linspace", "logspace", "normal", "ones"),
        *("ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"),
        *("range", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros", "zeros_like"),
        *("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"),
        *("sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor"),
        *("sparse_csc_tensor", "sparse_csr_tensor", "nested.nested_tensor", "nested.as_nested_tensor"),
        *("fft.fftfreq", "fft.rfftfreq"),
    ),
    (_DEVICE,),
)

#: ``with torch.device("cuda"):`` and ``torch.set_default_device("cuda")`` both make one of these.
DEVICE_CONTEXT: Rows = {"utils._device.DeviceContext.__init__": (_DEVICE,)}

TENSOR: Rows = {
    "Tensor.to": (_of_method("device"),),
    "Tensor.new_empty": (_DEVICE,),
    "Tensor.new_empty_strided": (_DEVICE,),
    "Tensor.new_full": (_DEVICE,),
    "Tensor.new_ones": (_DEVICE,),
    "Tensor.new_tensor": (_DEVICE,),
    "Tensor.new_zeros": (_DEVICE,),
    "Tensor.pin_memory": (_of_method("device"),),
    "Tensor.is_pinned": (_of_method("device"),),
    "Tensor.type": (Argument("dtype", npu_tensor_type, 1),),
    "storage._StorageBase.to": (_DEVICE,),
    "UntypedStorage.__new__": (_DEVICE,),
}

#: ``Module.cuda`` calls ``Tensor.cuda`` for each parameter and needs nothing.
MODULE: Rows = {"nn.Module.to": (_of_method("device"),), "nn.Module.to_empty": (_DEVICE,)}

DATA: Rows = {"utils.data.DataLoader.__init__": (Argument("pin_memory_device"),)}

#: ``torch.cuda.amp`` derives from these classes and calls these functions.
AMP: Rows = {
    "amp.autocast_mode.autocast.__init__": (Argument("device_type"),),
    "amp.autocast_mode.custom_fwd": (Argument("device_type"),),
    "amp.autocast_mode.custom_bwd": (Argument("device_type"),),
    "amp.autocast_mode.is_autocast_available": (Argument("device_type"),),
    "amp.grad_scaler.GradScaler.__init__": (Argument("device"),),
    "get_autocast_dtype": (_first("device_type"),),
    "set_autocast_dtype": (_first("device_type"),),
}

DISTRIBUTED: Rows = {
    "distributed.ProcessGroup._get_backend": (_of_method("device"),),
    "distributed.new_subgroups": (Argument("backend", npu_backend),),
    "distributed.new_subgroups_by_enumeration": (Argument("backend", npu_backend),),
    "distributed.is_backend_available": (Argument("backend", npu_backend),),
    "distributed.broadcast_object_list": (_DEVICE,),
    "distributed.send_object_list": (_DEVICE,),
    "distributed.recv_object_list": (_DEVICE,),
    "distributed.init_device_mesh": (Argument("device_type"),),
    "distributed.device_mesh.DeviceMesh.__init__": (Argument("device_type"),),
    "nn.parallel.DistributedDataParallel.__init__": (
        Argument("device_ids", npu_devices),
        Argument("output_device"),
    ),
}

FSDP = ("torch.distributed.fsdp.fully_sharded_data_parallel:FullyShardedDataParallel.__init__", Argument("device_id"))
PIPELINING = ("torch.distributed.pipelining.stage:PipelineStage.__init__", _DEVICE)

LOAD: Rows = {"load": (Argument("map_location", npu_location),), "jit.load": (Argument("map_location"),)}

#: Names of torch.cuda that point at those of the same name in torch.npu, with the device arguments of the call.
CUDA: Rows = {
    **dict.fromkeys(
        (
            *("caching_allocator_delete", "change_current_allocator", "current_blas_handle", "current_device"),
            *("device_count", "device_of", "empty_cache", "get_allocator_backend", "get_rng_state_all"),
            *("get_sync_debug_mode", "graph", "graph_pool_handle", "init", "initial_seed", "ipc_collect"),
            *("is_current_stream_capturing", "is_initialized", "make_graphed_callables"),
            *("manual_seed", "manual_seed_all", "memory_snapshot", "seed", "seed_all", "set_rng_state_all"),
            *("set_stream", "set_sync_debug_mode", "stream", "use_mem_pool", "StreamContext", "MemPool", "Event"),
            *("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor"),
            *("HalfTensor", "IntTensor", "LongTensor", "ShortTensor"),
            *("BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "DoubleStorage", "FloatStorage"),
            *("HalfStorage", "IntStorage", "LongStorage", "ShortStorage"),
        ),
        (),
    ),
    **dict.fromkeys(
        (
            *("clock_rate", "current_stream", "default_stream", "device", "device_memory_used", "get_device_name"),
            *("get_per_process_memory_fraction", "get_rng_state", "list_gpu_processes"),
            *("max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info"),
            *("memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "memory_stats_as_nested_dict"),
            *("memory_summary", "memory_usage", "power_draw", "reset_accumulated_memory_stats"),
            *("reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "set_device"),
            *("synchronize", "temperature", "utilization", "Stream"),
        ),
        (_first("device"),),
    ),
    "ExternalStream": (Argument("device", position=1),),
    "caching_allocator_alloc": (Argument("device", position=1),),
    "can_device_access_peer": (_first("device"), Argument("peer_device", position=1)),
    "set_per_process_memory_fraction": (Argument("device", position=1),),
    "set_rng_state": (Argument("device", position=1),),
}

#: Names of torch.cuda that have another name in torch.npu.
CUDA_RENAMED = {"CUDAGraph": "NPUGraph", "CUDAPluggableAllocator": "NPUPluggableAllocator"}

#: Functions of torch that mean CUDA and need nothing else: their calls are counted. ``torch.cuda.comm`` has those of
#: ``nn.parallel.comm``.
COUNTED = (
    *(
        f"nn.parallel.comm.{name}"
        for name in ("broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather")
    ),
    *(
        f"cuda.nccl.{name}"
        for name in (
            *("all_gather", "all_reduce", "broadcast", "init_rank", "is_available", "reduce", "reduce_scatter"),
            *("unique_id", "version"),
        )
    ),
    *(f"nn.parallel.{name}" for name in ("data_parallel", "gather", "parallel_apply", "replicate", "scatter")),
)

#: Functions of the generic interface to devices.
ACCELERATOR: Rows = {
    **dict.fromkeys(
        (
            f"accelerator.{name}"
            for name in ("current_stream", "get_device_capability", "set_device_index", "set_device_idx", "synchronize")
        ),
        (Argument("device", npu_accelerator),),
    ),
    **dict.fromkeys(
        (
            f"accelerator.{name}"
            for name in (
                *("get_memory_info", "max_memory_allocated", "max_memory_reserved", "memory_allocated"),
                *("memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats"),
            )
        ),
        (Argument("device_index", npu_accelerator),),
    ),
}

#: Classes written in C, which are exchanged as a whole.
GENERIC_CLASSES: Rows = {"Event": (_first("device"),), "Stream": (_first("device"),)}

PROFILER = ("schedule", "supported_activities", "tensorboard_trace_handler", "ProfilerAction")
