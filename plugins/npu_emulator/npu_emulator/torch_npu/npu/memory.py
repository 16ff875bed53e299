"""Memory of the devices: the bytes of tensors, as the core counts them.

There is no caching allocator: reserved memory is allocated memory, and an empty cache has nothing to release. The
memory is the host's, so running out of the chip's memory cannot be emulated.
"""

from __future__ import annotations

import collections
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any, Optional, Union

import torch

from npu_emulator import device as emulated
from npu_emulator.torch_npu.npu import _initialization
from npu_emulator.torch_npu.npu._devices import DeviceLike, mem_get_info
from npu_emulator.torch_npu.npu._refusals import refusing_class, refusing_function
from npu_emulator.torch_npu.npu._utils import valid_device_index
from npu_emulator.torch_npu.npu.streams import Stream
from patchcore.plugin import write_whole

__all__ = [
    "MemPool",
    "MemPoolContext",
    "NPUPluggableAllocator",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "change_current_allocator",
    "empty_cache",
    "empty_virt_addr_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
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
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]

_raw_allocations: dict[int, torch.Tensor] = {}
#: How many allocations there had been when the accumulated statistics were reset, by device.
_allocations_at_reset: dict[int, int] = {}
_fractions: dict[int, float] = {}
_lock = threading.Lock()


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Return :func:`memory_stats` as dictionaries in dictionaries; empty while the device was never used."""
    if not _initialization.is_initialized():
        return {}
    index = valid_device_index(device)
    memory = emulated.active().memory(index)
    held = {"all": {"current": memory.allocated, "peak": memory.peak}}
    counted = memory.allocations - _allocations_at_reset.get(index, 0)
    return {
        "allocation": {"all": {"allocated": counted}},
        "allocated_bytes": held,
        "active_bytes": held,
        "reserved_bytes": held,
        "num_alloc_retries": 0,
        "num_ooms": 0,
    }


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Return the statistics of a device's memory, in bytes where the name has "bytes".

    The keys are those of torch_npu (and torch.cuda) of which something is known here: ``allocated_bytes``,
    ``active_bytes`` and ``reserved_bytes`` ``.all.current`` and ``.all.peak``, the number of allocations
    ``allocation.all.allocated``, ``num_alloc_retries`` and ``num_ooms``. Pools, segments and splits do not exist.

    Raises:
        AssertionError: there is no such device.
    """
    return collections.OrderedDict(sorted(_flatten("", memory_stats_as_nested_dict(device))))


def _flatten(prefix: str, statistics: Union[dict[str, Any], int]) -> list[tuple[str, int]]:
    if not isinstance(statistics, dict):
        return [(prefix, statistics)]
    flat: list[tuple[str, int]] = []
    for name, value in statistics.items():
        flat += _flatten(f"{prefix}.{name}" if prefix else name, value)
    return flat


def memory_allocated(device: DeviceLike = None) -> int:
    """Return how many bytes the tensors on a device hold."""
    return emulated.active().memory(valid_device_index(device)).allocated


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the most bytes that tensors on a device held since the start or :func:`reset_peak_memory_stats`."""
    return emulated.active().memory(valid_device_index(device)).peak


def memory_reserved(device: DeviceLike = None) -> int:
    """Return :func:`memory_allocated`: nothing is cached."""
    return memory_allocated(device)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return :func:`max_memory_allocated`: nothing is cached."""
    return max_memory_allocated(device)


def memory_cached(device: DeviceLike = None) -> int:
    """Return :func:`memory_reserved`, whose old name this is."""
    warnings.warn("torch_npu.npu.memory_cached is now memory_reserved", DeprecationWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """Return :func:`max_memory_reserved`, whose old name this is."""
    warnings.warn("torch_npu.npu.max_memory_cached is now max_memory_reserved", DeprecationWarning, stacklevel=2)
    return max_memory_reserved(device)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Set the peak of a device to the memory that is allocated now."""
    emulated.active().reset_peak_memory(valid_device_index(device))


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Same as :func:`reset_peak_memory_stats`, with a warning that it resets all peaks, as in torch_npu."""
    _warn_of_all_peaks("reset_max_memory_allocated")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: DeviceLike = None) -> None:
    """Same as :func:`reset_peak_memory_stats`, with a warning that it resets all peaks, as in torch_npu."""
    _warn_of_all_peaks("reset_max_memory_cached")
    reset_peak_memory_stats(device)


def _warn_of_all_peaks(name: str) -> None:
    text = f"torch_npu.npu.{name} now calls reset_peak_memory_stats, which resets all peaks"
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Count allocations of a device from zero again."""
    index = valid_device_index(device)
    _allocations_at_reset[index] = emulated.active().memory(index).allocations


def memory_snapshot() -> list[dict[str, Any]]:
    """Return one segment per device that holds tensors.

    A segment of the hardware is a piece of memory that the allocator reserved. Here all tensors of a device are one,
    at no address of its own (0): sums over segments and blocks are right, positions mean nothing.
    """
    core = emulated.active()
    held = [(index, core.memory(index).allocated) for index in range(core.device_count())]
    return [
        {
            "device": index,
            "address": 0,
            "total_size": size,
            "allocated_size": size,
            "active_size": size,
            "requested_size": size,
            "stream": 0,
            "segment_type": "large",
            "blocks": [{"address": 0, "size": size, "requested_size": size, "state": "active_allocated", "frames": []}],
        }
        for index, size in held
        if size
    ]


def _record_memory_history(enabled: Optional[str] = "all", *args: Any, **kwargs: Any) -> None:
    """Warn that there is no history of allocations.

    Args:
        enabled: ``None`` to stop, ``"state"`` or ``"all"``; a bool as in the first version of this function.
        args, kwargs: the context, stacks, number and device, which are taken for compatibility.

    Raises:
        RuntimeError: there is no such ``enabled``.
    """
    if enabled not in (None, "state", "all", True, False):
        raise RuntimeError(f"expected state to be 'state', 'all', or None, found {enabled!r}")
    _initialization._lazy_init()
    if enabled:
        warnings.warn(
            "npu_emulator: allocations of the host's memory are not recorded; a snapshot has what tensors hold, and "
            "no history",
            stacklevel=2,
        )


def _snapshot(device: DeviceLike = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Return :func:`memory_snapshot` in the form that ``torch.cuda._memory_viz`` and pytorch.org/memory_viz read.

    Args:
        device, augment_with_fx_traces: taken for compatibility; all devices are in it, and no traces.
    """
    return {
        "segments": memory_snapshot(),
        "device_traces": [[] for _ in range(emulated.active().device_count())],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Write :func:`_snapshot` to a file by pickle."""
    write_whole(Path(filename), pickle.dumps(_snapshot()))


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return the statistics of a device as a table to print.

    Args:
        device: the device.
        abbreviated: taken for compatibility; the table has only what is known here.
    """
    index = valid_device_index(device)
    memory = emulated.active().memory(index)
    rows = [
        ("Allocated memory", _readable(memory.allocated), _readable(memory.peak)),
        ("NPU reserved memory", _readable(memory.allocated), _readable(memory.peak)),
    ]
    line = "-" * 63
    table = [line, f" PyTorch NPU memory summary, device ID {index} (emulated)", line]
    table.append(f" {'Metric':<22}| {'Cur Usage':>16} | {'Peak Usage':>16} ")
    table += [f" {name:<22}| {current:>16} | {peak:>16} " for name, current, peak in rows]
    return "\n".join([*table, f" Allocations: {memory.allocations}", line, ""])


def _readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: Union[Stream, int, None] = None) -> int:
    """Allocate memory on a device, for other libraries, until :func:`caching_allocator_delete`.

    Args:
        size: in bytes.
        device: the device.
        stream: whose kernels use it; means nothing here, where kernels finish before they return.

    Returns:
        The address, which is one of the host's.

    Raises:
        TypeError: the stream is none.
    """
    if not (stream is None or isinstance(stream, (Stream, int))):
        raise TypeError(
            f"caching_allocator_alloc: stream is expected to be a torch.npu.Stream or int, found {stream!r}"
        )
    index = valid_device_index(device)
    memory = torch.empty(size, dtype=torch.uint8, device=torch.device("npu", index))
    address = memory.data_ptr()
    with _lock:
        _raw_allocations[address] = memory
    return address


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free the memory that :func:`caching_allocator_alloc` returned.

    Args:
        mem_ptr: the address.

    Raises:
        RuntimeError: nothing was allocated there.
    """
    with _lock:
        if _raw_allocations.pop(mem_ptr, None) is None:
            raise RuntimeError(f"caching_allocator_delete: nothing is allocated at {mem_ptr:#x}")


def empty_cache() -> None:
    """Release cached memory, of which there is none."""


def empty_virt_addr_cache() -> None:
    """Release cached virtual addresses, of which there are none."""


def host_empty_cache() -> None:
    """Release cached pinned memory of the host, of which there is none."""


def get_allocator_backend() -> str:
    """Return ``"native"``, torch_npu's name for the allocator that was not exchanged."""
    return "native"


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Record which part of a device's memory this process may use; going over it raises nothing here.

    Args:
        fraction: 0 to 1.
        device: the device.

    Raises:
        TypeError: the fraction is no ``float``.
        ValueError: it is not from 0 to 1.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"Invalid type for fraction argument, must be `float`, found {fraction!r}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _fractions[valid_device_index(device)] = fraction


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Return the value that :func:`set_per_process_memory_fraction` recorded, 1.0 before."""
    return _fractions.get(valid_device_index(device), 1.0)


_ALLOCATORS = "the memory is the host's, and the allocator cannot be exchanged or divided into pools"
_PINNED = "pinned memory is not counted"

MemPool = refusing_class("torch.npu.MemPool", _ALLOCATORS)
MemPoolContext = refusing_class("torch.npu.MemPoolContext", _ALLOCATORS)
NPUPluggableAllocator = refusing_class("torch.npu.NPUPluggableAllocator", _ALLOCATORS)
use_mem_pool = refusing_function("torch.npu.use_mem_pool", _ALLOCATORS)
change_current_allocator = refusing_function("torch.npu.change_current_allocator", _ALLOCATORS)
host_memory_stats = refusing_function("torch.npu.host_memory_stats", _PINNED)
host_memory_stats_as_nested_dict = refusing_function("torch.npu.host_memory_stats_as_nested_dict", _PINNED)
reset_accumulated_host_memory_stats = refusing_function("torch.npu.reset_accumulated_host_memory_stats", _PINNED)
reset_peak_host_memory_stats = refusing_function("torch.npu.reset_peak_host_memory_stats", _PINNED)
