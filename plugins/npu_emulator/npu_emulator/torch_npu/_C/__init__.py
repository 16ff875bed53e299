"""``torch_npu._C``: those names of the real extension module that Python code besides torch_npu calls."""

from __future__ import annotations

from typing import Any, NoReturn, Optional

from npu_emulator import device as emulated
from npu_emulator.device import hccl
from npu_emulator.torch_npu._C import _data_parallel  # noqa: F401
from npu_emulator.torch_npu._settings import current_settings
from npu_emulator.torch_npu.npu import npu_config
from npu_emulator.torch_npu.npu._refusals import missing_name
from npu_emulator.torch_npu.npu.utils import get_soc_version, is_support_inf_nan

if hccl.is_available():
    from npu_emulator.torch_npu._C import _distributed_c10d  # noqa: F401  a part of the real extension module

__all__: list[str] = []


def _npu_getDeviceCount() -> int:
    """Return how many devices there are."""
    return emulated.active().device_count()


def _npu_getDevice() -> int:
    """Return the index of this thread's current device."""
    return emulated.active().current_device()


def _npu_setDevice(index: int) -> None:
    """Make a device this thread's current one."""
    emulated.active().set_device(index)


def _npu_getDeviceName() -> str:
    """Return the name of the emulated chip."""
    return current_settings().chip


def _npu_get_soc_version() -> int:
    """Return torch_npu's number of the emulated chip."""
    return get_soc_version()


def _npu_is_support_inf_nan() -> bool:
    """Return whether the chip computes infinities and NaNs."""
    return is_support_inf_nan()


def _npu_setOption(option: dict[str, Any]) -> None:
    """Record options: see ``torch.npu.set_option``."""
    npu_config.set_option(option)


def _npu_getOption(name: str) -> Optional[bytes]:
    """Return the value that was recorded for an option, in bytes as the real one does; ``None`` where nothing was."""
    value = npu_config.recorded_option(name)
    return None if value is None else value.encode()


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu._C", name)
