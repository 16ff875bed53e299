"""The compiled core, behind the interface that the rest of the emulator uses."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ExtensionFileLoader
from types import ModuleType

import torch
from torch import Tensor
from torch.utils import backend_registration

from npu_emulator import private_torch
from npu_emulator.device.interface import Memory
from npu_emulator.device.native.build import MODULE, library_path, trusted_library
from npu_emulator.errors import EmulationError

__all__ = ["NativeCore"]

#: The real device has no quantized tensors either; torch would make casts to them otherwise.
_UNSUPPORTED = [torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4]


class NativeCore:
    """Implements :class:`npu_emulator.device.interface.Core`, whose docstrings hold here.

    Raises:
        EmulationError: the library is not built for this torch, or does not load.
    """

    name = "native"

    def __init__(self) -> None:
        self._library = _load_library()

    def start(self, module: ModuleType, devices: int, *, share_generator: bool = False) -> None:
        """Register everything with torch. Once per process."""
        self._library.start(devices, share_generator)
        backend_registration.rename_privateuse1_backend("npu")
        backend_registration.generate_methods_for_privateuse1_backend(for_storage=True, unsupported_dtype=_UNSUPPORTED)
        private_torch.register_device_module("npu", module)
        private_torch.allowed_methods.append(torch.Tensor.npu)

    def device_count(self) -> int:
        """Return how many devices there are."""
        return self._library.device_count()

    def current_device(self) -> int:
        """Return the index of this thread's current device."""
        return self._library.current_device()

    def set_device(self, index: int) -> None:
        """Make a device this thread's current one."""
        self._library.set_device(index)

    def alias_on_cpu(self, tensor: Tensor) -> Tensor:
        """Return a CPU tensor with the memory of an NPU tensor."""
        return self._library.alias_on_cpu(tensor)

    def alias_on_npu(self, tensor: Tensor, index: int) -> Tensor:
        """Return an NPU tensor with the memory of a CPU tensor."""
        return self._library.alias_on_npu(tensor, index)

    def memory(self, index: int) -> Memory:
        """Return the figures of the memory of a device."""
        return Memory(*self._library.memory(index))

    def reset_peak_memory(self, index: int) -> None:
        """Set the peak to the memory that is allocated now."""
        self._library.reset_peak_memory(index)

    def default_generator(self, index: int) -> torch.Generator:
        """Return the generator of a device."""
        return self._library.default_generator(index)

    def refuse(self, reason: str) -> None:
        """Refuse every use of the memory of a device from now on."""
        self._library.refuse(reason)


def _load_library() -> ModuleType:
    path = library_path()
    if not path.is_file():
        raise EmulationError(
            f"npu_emulator: the compiled core is not built for torch {torch.__version__}: expected {path}. Build it "
            "with `python -m npu_emulator build`, or use the core in Python (NPU_EMULATOR_CORE=python)."
        )
    path = trusted_library()
    loader = ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    assert spec is not None, "a spec with a loader is always made"
    try:
        library = importlib.util.module_from_spec(spec)
        loader.exec_module(library)
    except ImportError as error:
        raise EmulationError(
            f"npu_emulator: the compiled core at {path} does not load: {error}. Build it again with "
            "`python -m npu_emulator build --force`."
        ) from error
    return library
