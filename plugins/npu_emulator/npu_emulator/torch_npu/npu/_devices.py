"""The devices of the process, the current one, and their properties."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from typing import Any, Optional, Union

import torch

from npu_emulator import device as emulated
from npu_emulator.torch_npu._settings import current_settings
from npu_emulator.torch_npu.npu import _initialization
from npu_emulator.torch_npu.npu._chips import chip
from npu_emulator.torch_npu.npu._utils import _get_device_index, valid_device_index

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "mem_get_info",
    "set_device",
    "synchronize",
    "utilization",
]

DeviceLike = Union[int, str, torch.device, None]

CAPABILITY = "TORCH_NPU_DEVICE_CAPABILITY"


@dataclass(frozen=True)
class DeviceProperties:
    """The result of ``torch.npu.get_device_properties()``.

    Properties that only GPUs have are ``None``, and ``multi_processor_count`` is the number of vector units, as in
    torch_npu 2.13 (``torch_npu/csrc/npu/Module.cpp``).

    Args:
        name: of the chip.
        total_memory: in bytes.
        L2_cache_size: in bytes.
        cube_core_num: how many matrix units.
        vector_core_num: how many vector units.
        multi_processor_count: the same.
    """

    name: str
    total_memory: int
    L2_cache_size: int
    cube_core_num: int
    vector_core_num: int
    multi_processor_count: int
    major: None = None
    minor: None = None
    is_multi_gpu_board: None = None
    is_integrated: None = None
    max_threads_per_multi_processor: None = None
    warp_size: None = None
    regs_per_multiprocessor: None = None
    gcnArchName: None = None


def is_available() -> bool:
    """Return whether there is a device."""
    return device_count() > 0


def device_count() -> int:
    """Return how many devices this process sees; ``ASCEND_RT_VISIBLE_DEVICES`` counts as it was at the start."""
    return emulated.active().device_count()


def current_device() -> int:
    """Return the index of this thread's current device."""
    _initialization._lazy_init()
    return emulated.active().current_device()


def set_device(device: DeviceLike) -> None:
    """Make a device this thread's current one; a negative index changes nothing.

    Raises:
        RuntimeError: there is no such device.
    """
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _initialization._lazy_init()
        emulated.active().set_device(index)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for the work on a device, which is already done: emulated kernels return when they have finished.

    Raises:
        AssertionError: there is no such device.
    """
    _initialization._lazy_init()
    valid_device_index(device)


class device:
    """Context manager that makes another device current within the block.

    Args:
        device: the device; ``None`` or a negative index changes nothing.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = -1
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        set_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor or storage current; an object elsewhere changes nothing.

    Args:
        obj: the tensor or storage.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "npu" else None)


def get_device_name(device_name: DeviceLike = None) -> str:
    """Return the name of the emulated chip, such as ``"Ascend910B3"``.

    Raises:
        AssertionError: there is no such device.
    """
    valid_device_index(device_name)
    return current_settings().chip


def get_device_properties(device_name: DeviceLike = None) -> DeviceProperties:
    """Return the properties of the emulated chip. Its memory is no limit: emulated memory is the host's.

    Raises:
        AssertionError: there is no such device.
        RuntimeError: this process was forked from one that had initialised the device.
    """
    _initialization._lazy_init()
    found = chip(get_device_name(device_name))
    vectors = found.vector_cores
    return DeviceProperties(found.name, found.memory, found.l2_cache, found.cube_cores, vectors, vectors)


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and the total memory of a device in bytes, as if it had the chip's memory for itself.

    Raises:
        AssertionError: there is no such device.
    """
    index = valid_device_index(device)
    total = get_device_properties(index).total_memory
    return max(0, total - emulated.active().memory(index).allocated), total


def get_device_capability(device: DeviceLike = None) -> Optional[tuple[int, int]]:
    """Return the compute capability that ``TORCH_NPU_DEVICE_CAPABILITY`` pretends, else ``None`` with a warning.

    NPUs have none; torch_npu offers the variable (``"8.0"``) for code that needs one.
    """
    text = os.environ.get(CAPABILITY)
    if not text:
        warnings.warn(f"An NPU has no compute capability; set {CAPABILITY} to report one.", stacklevel=2)
        return None
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", text)
    if match is None:
        warnings.warn(f"{CAPABILITY} is expected to be 'major.minor', such as '8.0', found {text!r}.", stacklevel=2)
        return None
    return int(match[1]), int(match[2])


def can_device_access_peer(device_id: DeviceLike, peer_device_id: DeviceLike) -> bool:
    """Return whether two devices reach each other's memory: in one server, any two different ones do.

    Raises:
        AssertionError: there is no such device.
    """
    return valid_device_index(device_id) != valid_device_index(peer_device_id)


def utilization(device: DeviceLike = None) -> int:
    """Return how busy a device is, in per cent: 0, because emulated kernels return when they have finished.

    Raises:
        AssertionError: there is no such device.
    """
    _initialization._lazy_init()
    valid_device_index(device)
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the chip computes in bfloat16: every one that can be emulated does.

    Args:
        including_emulation: taken for compatibility with ``torch.cuda.is_bf16_supported``.
    """
    _initialization._lazy_init()
    return True
