"""The device for ``torch._dynamo``."""

from __future__ import annotations

from typing import Any, Optional, Union

import torch

from npu_emulator.device import active
from npu_emulator.private_torch import DeviceInterface, register_interface_for_device

__all__ = ["NpuInterface", "register"]

_npu = torch.npu


class NpuInterface(DeviceInterface):
    """``torch.npu`` by the names of :class:`torch._dynamo.device_interface.DeviceInterface` (torch 2.13)."""

    device = _npu.device
    Event = _npu.Event
    Stream = _npu.Stream

    class Worker:
        """The same for the processes of a parallel compiler, which use fewer functions."""

        set_device = staticmethod(_npu.set_device)
        current_device = staticmethod(_npu.current_device)
        get_device_properties = staticmethod(_npu.get_device_properties)

    current_device = staticmethod(_npu.current_device)
    set_device = staticmethod(_npu.set_device)
    device_count = staticmethod(_npu.device_count)
    is_available = staticmethod(_npu.is_available)
    stream = staticmethod(_npu.stream)
    current_stream = staticmethod(_npu.current_stream)
    set_stream = staticmethod(_npu.set_stream)
    synchronize = staticmethod(_npu.synchronize)
    get_device_properties = staticmethod(_npu.get_device_properties)
    memory_allocated = staticmethod(_npu.memory_allocated)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        _npu.set_stream(_npu.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """Return the number of a device's current stream."""
        return _npu.current_stream(device_idx).stream_id

    @staticmethod
    def exchange_device(device: int) -> int:
        """Make a device the current one and return the one before; a negative one changes nothing."""
        before = _npu.current_device()
        if device >= 0:
            _npu.set_device(device)
        return before

    maybe_exchange_device = exchange_device

    @staticmethod
    def get_compute_capability(device: Optional[Union[torch.device, str, int]] = None) -> Any:
        """Return the key by which torch keeps compiled code apart: the chip."""
        return _npu.get_device_name(device)

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Return whether the chip computes in bfloat16."""
        return _npu.is_bf16_supported()


def register() -> None:
    """Register the interface for the device and for each of its indices."""
    register_interface_for_device("npu", NpuInterface)
    for index in range(active().device_count()):
        register_interface_for_device(f"npu:{index}", NpuInterface)
