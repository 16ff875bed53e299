"""``torch.accelerator``: its functions call a device guard in C++, which knows one device only.

They call functions of ``torch._C`` by name, so those functions are replaced.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable, Optional

from npu_emulator import private_torch
from npu_emulator.device.dlpack.accounting import Accounting
from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.streams import npu_stream
from npu_emulator.private_torch import eval_frame

__all__ = ["install"]


def install(devices: Devices, accounting: Accounting, module: ModuleType) -> None:
    """Let ``torch.accelerator`` call the device module.

    Args:
        devices: the devices.
        accounting: of their memory.
        module: ``torch.npu``; its functions are looked up when they are needed.
    """

    def set_device(index: int) -> None:
        if index >= 0:
            devices.select(index)

    def exchange_device(index: int) -> int:
        before = devices.current()
        set_device(index)
        return before

    def resolve(index: Optional[int]) -> int:
        return devices.current() if index is None or index < 0 else index

    def current_stream(index: int) -> Any:
        return module.current_stream(resolve(index))

    def synchronize(index: int) -> None:
        module.synchronize(resolve(index))

    def memory_stats(index: int) -> dict[str, Any]:
        # In the shape of the C++ function: torch.accelerator joins the keys with dots. Nothing is cached, so what is
        # reserved is what is allocated.
        memory = accounting.memory(resolve(index))
        held = {"current": memory.allocated, "peak": memory.peak}
        return {name: {"all": held} for name in ("allocated_bytes", "active_bytes", "reserved_bytes")}

    exchanged: dict[str, Callable[..., Any]] = {
        "getDeviceIndex": devices.current,
        "setDeviceIndex": set_device,
        "exchangeDevice": exchange_device,
        "maybeExchangeDevice": exchange_device,
        "getStream": current_stream,
        "setStream": lambda stream: module.set_stream(npu_stream(stream)),
        "synchronizeDevice": synchronize,
        "isAllocatorInitialized": lambda: True,
        "emptyCache": lambda: module.empty_cache(),
        "getDeviceStats": memory_stats,
        "getMemoryInfo": lambda index: module.mem_get_info(resolve(index)),
        "resetPeakStats": lambda index: accounting.reset_peak(resolve(index)),
        "resetAccumulatedStats": lambda index: module.reset_accumulated_memory_stats(resolve(index)),
    }
    for name, function in exchanged.items():
        setattr(private_torch.C, f"_accelerator_{name}", _untraced(function))


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that torch.compile leaves alone, as it does the function in C++ that this replaces.

    Compiled programs ask for the current stream; compiling the answer would ask again.
    """

    def call(*args: Any) -> Any:
        before = eval_frame.set_eval_frame(None)
        try:
            return function(*args)
        finally:
            eval_frame.set_eval_frame(before)

    return call
