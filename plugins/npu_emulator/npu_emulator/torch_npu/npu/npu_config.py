"""Options of the device.

Those that only change how fast the hardware computes, or with how many bits where float32 was asked for, are recorded
and change nothing here: emulated kernels are the CPU's, in full precision. Those that would have to do something
(write dumps, warn of synchronisation) raise :class:`NotEmulated`.
"""

from __future__ import annotations

import enum
import os
import warnings
from typing import Any, Callable, Optional, Union

import torch

from npu_emulator.torch_npu.npu._devices import DeviceLike, get_device_properties
from npu_emulator.torch_npu.npu._refusals import refuse, refusing_function
from npu_emulator.torch_npu.npu._utils import valid_device_index

__all__ = [
    "CubeMathType",
    "are_compatible_impl_enabled",
    "config",
    "conv",
    "finalize_dump",
    "get_device_limit",
    "get_mm_bmm_format_nd",
    "get_stream_limit",
    "get_sync_debug_mode",
    "init_dump",
    "is_jit_compile_false",
    "matmul",
    "recorded_option",
    "reset_stream_limit",
    "set_aoe",
    "set_compile_mode",
    "set_deterministic_level",
    "set_device_limit",
    "set_dump",
    "set_mm_bmm_format_nd",
    "set_op_timeout_ms",
    "set_option",
    "set_stream_limit",
    "set_sync_debug_mode",
    "use_compatible_impl",
]

#: The options whose values torch_npu (2.6) checks; other options take any value.
_ALLOWED: dict[str, Union[tuple[str, ...], range]] = {
    "ACL_PRECISION_MODE": ("allow_fp32_to_fp16", "must_keep_origin_dtype"),
    "ACL_OP_SELECT_IMPL_MODE": ("high_performance", "high_precision"),
    "ACL_AICORE_NUM": range(1, 33),
    "ACL_OP_DEBUG_LEVEL": ("0", "1", "2", "3", "4"),
    "ACL_OP_COMPILER_CACHE_MODE": ("disable", "enable", "force"),
}

_options: dict[str, str] = {}


def set_option(option: dict[str, Any]) -> None:
    """Record options of CANN's compiler and runtime; :func:`recorded_option` shows them.

    Args:
        option: names and values; values become strings.

    Raises:
        TypeError: it is no dictionary.
        ValueError: an option does not take such a value.
    """
    if not isinstance(option, dict):
        raise TypeError(f"npu option must be a dict, found {type(option).__name__}")
    values = {name: str(value) for name, value in option.items()}
    for name, value in values.items():
        allowed = _ALLOWED.get(name)
        if allowed is not None and value not in map(str, allowed):
            raise ValueError(f"value of {name} should be one of {', '.join(map(str, allowed))}, found {value!r}")
    _options.update(values)


def recorded_option(name: str) -> Optional[str]:
    """Return the value that was recorded for an option, ``None`` where nothing was.

    Args:
        name: such as ``"ACL_PRECISION_MODE"``; the switches of this module have names too, as in torch_npu.
    """
    return _options.get(name)


def _switch(name: str, default: bool) -> property:
    """Return a property that records an option ``enable`` or ``disable``."""

    def read(_: Any) -> bool:
        return _options.get(name, "enable" if default else "disable") == "enable"

    def write(_: Any, value: bool) -> None:
        set_option({name: "enable" if value else "disable"})

    return property(read, write, doc=f"Recorded as the option {name}.")


class CubeMathType(enum.IntEnum):
    """The precision that the matrix unit may use for its inputs, as a number of ACLNN."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    USE_FP32_ADD = 4


class _Config:
    """``torch.npu.config``."""

    __slots__ = ()
    #: Whether tensors may have formats of the hardware's own. Emulated ones never have: it is only recorded.
    allow_internal_format = _switch("ALLOW_INTERNAL_FORMAT", default=True)


class _Matmul:
    """``torch.npu.matmul``."""

    __slots__ = ("_cube_math_type",)
    #: Whether float32 matrix products may be computed with 11 bits of mantissa. Only recorded.
    allow_hf32 = _switch("ALLOW_MATMUL_HF32", default=False)

    def __init__(self) -> None:
        self._cube_math_type: Optional[CubeMathType] = None

    @property
    def cube_math_type(self) -> Optional[CubeMathType]:
        """The precision that the matrix unit may use for its inputs. Only recorded."""
        return self._cube_math_type

    @cube_math_type.setter
    def cube_math_type(self, value: CubeMathType) -> None:
        self._cube_math_type = CubeMathType(value)
        set_option({"CUBE_MATH_TYPE": self._cube_math_type.value})


class _Convolution:
    """``torch.npu.conv``."""

    __slots__ = ()
    #: Whether float32 convolutions may be computed with 11 bits of mantissa. Only recorded.
    allow_hf32 = _switch("ALLOW_CONV_HF32", default=True)


config = _Config()
matmul = _Matmul()
conv = _Convolution()


def set_compile_mode(jit_compile: bool = False) -> None:
    """Record whether operators are compiled when they are met; nothing is compiled here."""
    set_option({"jitCompile": "enable" if jit_compile else "disable"})


def is_jit_compile_false() -> bool:
    """Return whether :func:`set_compile_mode` recorded ``False``, as it is on the chips emulated here by default."""
    return _options.get("jitCompile", "disable") == "disable"


def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
    """Record whether matrix products keep the plain format; emulated tensors have no other."""
    set_option({"MM_BMM_ND_ENABLE": "enable" if is_nd else "disable"})


def get_mm_bmm_format_nd() -> bool:
    """Return the value that :func:`set_mm_bmm_format_nd` recorded, true before."""
    return _options.get("MM_BMM_ND_ENABLE", "enable") == "enable"


def set_aoe(dump_path: str) -> None:
    """Record that operators shall be tuned; nothing is tuned here.

    Args:
        dump_path: the directory for the files of tuning; it is created.
    """
    os.makedirs(dump_path, exist_ok=True)
    set_option({"autotune": "enable", "autotunegraphdumppath": dump_path})


def use_compatible_impl(is_enable: bool) -> None:
    """Record whether operators shall behave as CUDA's where the hardware's own do not."""
    set_option({"TORCH_NPU_USE_COMPATIBLE_IMPL": "1" if is_enable else "0"})


def are_compatible_impl_enabled() -> bool:
    """Return the value that :func:`use_compatible_impl` recorded, false before."""
    return _options.get("TORCH_NPU_USE_COMPATIBLE_IMPL") == "1"


def set_op_timeout_ms(timeout: int) -> None:
    """Record how long an operator may take, in milliseconds; none is ended here."""
    set_option({"OP_TIMEOUT_MS": int(timeout)})


def set_deterministic_level(level: int) -> None:
    """Demand determinism: 0 of nothing, from 1 on of every operator.

    Emulated kernels are the CPU's, so this is ``torch.use_deterministic_algorithms`` (which torch_npu switches, too).
    """
    wanted = level >= 1
    if wanted != torch.are_deterministic_algorithms_enabled():
        warnings.warn(
            f"set_deterministic_level({level}) sets torch.use_deterministic_algorithms to {wanted}.", stacklevel=2
        )
        torch.use_deterministic_algorithms(wanted)


def set_sync_debug_mode(debug_mode: Union[str, int]) -> None:
    """Demand warnings (1, ``"warn"``) or errors (2, ``"error"``) where the host waits for the device.

    Raises:
        NotEmulated: anything but 0, ``"default"``: emulated kernels finish before they return, so nothing ever waits.
        RuntimeError: there is no such mode.
    """
    if debug_mode in (0, "default"):
        return
    if debug_mode not in (1, 2, "warn", "error"):
        raise RuntimeError(f"expected a debug mode of `default`, `warn`, `error`, found {debug_mode!r}")
    refuse("torch.npu.set_sync_debug_mode('warn' or 'error')", "the host never waits for the emulated device")


def get_sync_debug_mode() -> int:
    """Return 0: see :func:`set_sync_debug_mode`."""
    return 0


class _CoreLimits:
    """Limits of the cores of a chip: recorded and returned, without an effect."""

    def __init__(self) -> None:
        self._limits: dict[Any, dict[str, int]] = {}

    def set(self, key: Any, index: int, cube_num: int, vector_num: int) -> None:
        limits = self.get(key, index)
        for name, number in (("cube_core_num", cube_num), ("vector_core_num", vector_num)):
            if number != -1:
                limits[name] = number
        self._limits[key] = limits

    def get(self, key: Any, index: int) -> dict[str, int]:
        properties = get_device_properties(index)
        whole = {"cube_core_num": properties.cube_core_num, "vector_core_num": properties.vector_core_num}
        return {**whole, **self._limits.get(key, {})}

    def reset(self, key: Any) -> None:
        self._limits.pop(key, None)


_device_limits = _CoreLimits()
_stream_limits = _CoreLimits()


def set_device_limit(device: DeviceLike, cube_num: int = -1, vector_num: int = -1) -> None:
    """Record how many cores of a device this process may use; -1 leaves a number as it is."""
    index = valid_device_index(device)
    _device_limits.set(index, index, cube_num, vector_num)


def get_device_limit(device: DeviceLike) -> dict[str, int]:
    """Return ``cube_core_num`` and ``vector_core_num``: the recorded numbers, else those of the chip."""
    index = valid_device_index(device)
    return _device_limits.get(index, index)


def set_stream_limit(stream: torch.Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Record how many cores the kernels of a stream may use; -1 leaves a number as it is."""
    _stream_limits.set(stream, stream.device_index, cube_num, vector_num)


def get_stream_limit(stream: torch.Stream) -> dict[str, int]:
    """Return ``cube_core_num`` and ``vector_core_num``: the recorded numbers, else those of the chip."""
    return _stream_limits.get(stream, stream.device_index)


def reset_stream_limit(stream: torch.Stream) -> None:
    """Forget the numbers that were recorded for a stream."""
    _stream_limits.reset(stream)


_DUMP = "CANN dumps the inputs and outputs of operators of the hardware"

init_dump: Callable[..., Any] = refusing_function("torch.npu.init_dump", _DUMP)
set_dump: Callable[..., Any] = refusing_function("torch.npu.set_dump", _DUMP)
finalize_dump: Callable[..., Any] = refusing_function("torch.npu.finalize_dump", _DUMP)
