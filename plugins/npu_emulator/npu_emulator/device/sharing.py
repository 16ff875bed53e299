"""Refuses to send tensors on the NPU to other processes.

torch_npu sends a handle of the memory, as CUDA does: both processes then use the same memory. The memory of an emulated
NPU belongs to one process.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from torch.multiprocessing import reductions

from npu_emulator.errors import NotEmulated

__all__ = ["register"]


def register() -> None:
    """Replace how ``multiprocessing`` pickles tensors and storages, as torch_npu does. Once per process."""
    reductions.reduce_tensor = _refusing(reductions.reduce_tensor, "a tensor")
    reductions.reduce_storage = _refusing(reductions.reduce_storage, "a storage")
    reductions.init_reductions()


def _refusing(reduce: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    @functools.wraps(reduce)
    def reduce_on_host(value: Any) -> Any:
        if value.device.type == "npu":
            raise NotEmulated(
                f"{what} on {value.device} cannot be sent to another process: the memory of an emulated NPU belongs to "
                "one process. Send tensor.cpu(), and call .npu() or .to(device) on it in the other process. On an NPU, "
                "as on CUDA, both processes use the same memory."
            )
        return reduce(value)

    return reduce_on_host
