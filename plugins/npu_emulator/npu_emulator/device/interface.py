"""The interface of a core: the part that makes tensors on ``npu:0`` possible, in Python or compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Protocol

    from torch import Generator, Tensor
else:
    Protocol = object

__all__ = ["Core", "Memory"]


class Memory(NamedTuple):
    """The memory of one device, in bytes.

    Args:
        allocated: held by tensors now.
        peak: the most that was since the start or the last reset.
        allocations: how many there were.
    """

    allocated: int
    peak: int
    allocations: int


class Core(Protocol):
    """The PrivateUse1 backend of torch, named ``npu``: its tensors are in host memory, its kernels are the CPU's.

    One exists per process, from :meth:`start` to the end of the process: torch can neither rename nor forget a backend.
    """

    #: ``"python"`` or ``"native"``.
    name: str

    def start(self, module: ModuleType, devices: int, *, share_generator: bool = False) -> None:
        """Register allocator, kernels, generators and guard with torch.

        Args:
            module: becomes ``torch.npu``.
            devices: how many there are.
            share_generator: all devices draw from the generator of the CPU.
        """

    def device_count(self) -> int:
        """Return how many devices there are."""

    def current_device(self) -> int:
        """Return the index of this thread's current device."""

    def set_device(self, index: int) -> None:
        """Make a device this thread's current one.

        Raises:
            RuntimeError: there is no such device.
        """

    def alias_on_cpu(self, tensor: Tensor) -> Tensor:
        """Return a CPU tensor with the memory, strides and dtype of an NPU tensor."""

    def alias_on_npu(self, tensor: Tensor, index: int) -> Tensor:
        """Return a tensor on ``npu:index`` with the memory, strides and dtype of a CPU tensor."""

    def memory(self, index: int) -> Memory:
        """Return the figures of the memory of a device."""

    def reset_peak_memory(self, index: int) -> None:
        """Set the peak to the memory that is allocated now."""

    def default_generator(self, index: int) -> Generator:
        """Return the generator of a device."""

    def refuse(self, reason: str) -> None:
        """Refuse every use of the memory of a device from now on, in this process.

        Args:
            reason: of the :class:`RuntimeError` that kernels and allocations raise.
        """
