"""The device for ``torch._inductor``: no code can be generated for it."""

from __future__ import annotations

from typing import Any

from npu_emulator.errors import NotEmulated
from npu_emulator.private_torch import DeviceOpOverrides, register_backend_for_device, register_device_op_overrides

__all__ = ["NoCodeGenerator", "register"]


class NoCodeGenerator:
    """Stands where the generators of kernels and of the code around them are.

    Raises:
        NotEmulated: always.
    """

    #: Read before one is made.
    supports_caching = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotEmulated(
            "npu_emulator: torch._inductor needs a code generator for the device, and an emulated NPU has none. "
            "Compile with torch.compile, whose default back end runs aot_eager for NPU tensors here."
        )

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> NoCodeGenerator:
        """Make one, as ``PythonWrapperCodegen`` (torch 2.13) is made."""
        return cls(*args, **kwargs)


def register() -> None:
    """Register the refusal."""
    register_backend_for_device("npu", NoCodeGenerator, NoCodeGenerator)
    # Looked up before a generator is made; every method of it raises.
    register_device_op_overrides("npu", DeviceOpOverrides())
