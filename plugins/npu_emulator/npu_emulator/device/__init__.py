"""The emulated device: started once per process, for good."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Optional

from npu_emulator import cuda_build, private_torch
from npu_emulator.device.visibility import visible_devices
from npu_emulator.errors import EmulationError, RealLibraryError
from npu_emulator.gpus import hide_gpus
from npu_emulator.settings import STRICT_DTYPES, Settings

if TYPE_CHECKING:
    from npu_emulator.device.interface import Core

__all__ = ["ANY_TORCH", "SUPPORTED_TORCH", "active", "is_active", "requested_settings", "start"]

#: The releases of torch whose private functions the cores are written for and tested with.
SUPPORTED_TORCH = ("2.13",)
#: Set to 1 to try another release all the same.
ANY_TORCH = "NPU_EMULATOR_ANY_TORCH"

#: The name of the backend in torch as long as no library has renamed it.
_UNCLAIMED = "privateuseone"
_STAND_IN = "npu_emulator.torch_npu"

_lock = threading.RLock()
_core: Optional[Core] = None
_settings: Optional[Settings] = None


def start(settings: Settings, environ: Mapping[str, str] = os.environ) -> Core:
    """Give this process NPUs until it ends: torch can neither rename nor forget a backend.

    Starting again with the same settings returns the same core.

    Args:
        settings: which core, and how many devices the machine has.
        environ: the environment; :data:`ANY_TORCH` in it admits other releases of torch, and
            ``ASCEND_RT_VISIBLE_DEVICES`` says which of the machine's devices this process sees.

    Returns:
        The core, which has registered everything with torch.

    Raises:
        RealLibraryError: a real ``torch_npu``, or another backend, has claimed the device in this process.
        EmulationError: this release of torch is not supported, the compiled core was asked for and is not there, or
            the device was started with other settings.
    """
    global _settings
    import torch  # noqa: F401  the end of this import may start the device already

    with _lock:
        if _settings is not None and settings != _settings:
            raise EmulationError(
                f"npu_emulator: the settings of the emulated device cannot change within a process: it was started "
                f"with {_settings}, found {settings}. Start another process."
            )
        if _core is not None:
            return _core
        _refuse_other_torch(environ)
        _refuse_other_backend()
        cuda_build.hide()
        hide_gpus()  # again: programs set the variable before they import torch
        _settings = settings
    try:
        # Without the lock: another thread may be importing the stand-in, which starts the device and so comes here.
        module = importlib.import_module(f"{_STAND_IN}.npu")
        return _start(module, settings, environ)
    except BaseException:
        with _lock:
            if _core is None:
                _settings = None
        raise


def _start(module: ModuleType, settings: Settings, environ: Mapping[str, str]) -> Core:
    global _core
    with _lock:
        if _core is None:
            core = _make_core(settings)
            core.start(module, visible_devices(settings.devices, environ), share_generator=settings.random == "cpu")
            _core = core
            for name in ("kernels", "hccl", "compiling", "backward", "sharing"):
                importlib.import_module(f"npu_emulator.device.{name}").register()
            if environ.get(STRICT_DTYPES) == "1":
                importlib.import_module("npu_emulator.device.strict_dtypes").register()
        return _core


def active() -> Core:
    """Return the core of this process.

    Raises:
        EmulationError: the device was not started.
    """
    if _core is None:
        raise EmulationError(
            "npu_emulator: no emulated NPU in this process. Call npu_emulator.install() and import torch_npu, or run "
            "the program with `patchcore run --emulate-npu`."
        )
    return _core


def requested_settings() -> Optional[Settings]:
    """Return the settings that the device was, or is being, started with; ``None`` before."""
    return _settings


def is_active() -> bool:
    """Return whether this process emulates NPUs."""
    return _core is not None


def _make_core(settings: Settings) -> Core:
    from npu_emulator.device import native

    compiled = native.find(settings.core)
    if compiled is not None:
        return compiled
    from npu_emulator.device.dlpack import DlpackCore

    return DlpackCore()


def _refuse_other_torch(environ: Mapping[str, str]) -> None:
    import torch

    release = ".".join(str(torch.__version__).split(".")[:2])
    if release in SUPPORTED_TORCH or environ.get(ANY_TORCH) == "1":
        return
    raise EmulationError(
        f"npu_emulator: the emulated NPU uses private functions of torch and supports torch "
        f"{', '.join(SUPPORTED_TORCH)}, found {torch.__version__}. Install a supported release, or set {ANY_TORCH}=1 "
        "to try this one."
    )


def _refuse_other_backend() -> None:
    real = sys.modules.get("torch_npu")
    if real is not None and not _is_stand_in(real):
        raise RealLibraryError(
            f"npu_emulator: expected no real torch_npu, found {real!r}. An emulated NPU never hides a real one: run "
            "without npu_emulator here, or in an environment without torch_npu."
        )
    name = private_torch.get_privateuse1_backend_name()
    if name != _UNCLAIMED:
        raise RealLibraryError(
            f"npu_emulator: torch has one place for a further backend, and {name!r} has taken it. Emulate NPUs in a "
            "process that does not load it."
        )


def _is_stand_in(module: ModuleType) -> bool:
    """Return whether a module is the stand-in, or the import system's placeholder while that is being imported."""
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    return origin is not None and Path(origin) == Path(__file__).parents[1] / "torch_npu" / "__init__.py"
