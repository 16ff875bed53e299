"""Writes through a conjugated view of an NPU tensor: ``x.conj().copy_(y)``, ``x.conj().add_(y)``, ``out=x.conj()``.

The ``copy_`` of torch_npu (2.9 to 2.14, ``CopyKernelOpApi.cpp``) looks at the conjugation of the source only, so that
``x`` gets ``y`` where its conjugate is due: other numbers, no error. PyTorch writes the result of an in-place operator
on such a view by ``copy_``, too. A view that is conjugated and negated ends the process: ``copy_`` and ``neg_`` call
each other until the stack ends.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Optional

import patchcore as pc
from patchcore.plugin import ABSENT, Slot, SlotChange
from torch_npu_patches import private_torch

NAME = "torch.npu_conjugated_copies"
#: torch_npu imports torch: it is the operator of PyTorch, and the patch waits for torch_npu.
TARGET = "torch_npu:torch.ops.aten.copy_"


class Kernel:
    """The kernel of ``copy_`` for conjugated tensors, which PyTorch calls before that of the device.

    Args:
        device: type of the device that loses the conjugation.
    """

    def __init__(self, device: str = "npu") -> None:
        self.device = device
        self.held = ExitStack()
        self._is_needed: Optional[bool] = None

    def register(self) -> None:
        """Put the kernel into PyTorch's dispatcher."""
        library = self.held.enter_context(private_torch.scoped_library("aten", "IMPL"))
        with warnings.catch_warnings():  # torch 2.4 to 2.8 warn of it once in every process
            warnings.filterwarnings("ignore", ".*other operators may also be overrid", UserWarning)
            library.impl("copy_", self.copy, "Conjugate", with_keyset=True)

    def remove(self) -> None:
        """Take it out again."""
        self.held.close()

    def copy(self, keys: Any, target: Any, source: Any, non_blocking: bool = False) -> Any:
        """Copy ``source`` into ``target``.

        Args:
            keys: of the dispatcher for this call.
            target: a tensor, perhaps a conjugated view.
            source: a tensor; this one or the target is conjugated.
            non_blocking: whether the call may return before the copy is done.

        Returns:
            ``target``.
        """
        if target.is_conj() and self.device in (target.device.type, source.device.type) and self.is_needed(keys):
            target.conj().copy_(source.conj().resolve_conj(), non_blocking)
            return target
        return self._below(keys, target, source, non_blocking)

    def is_needed(self, keys: Any) -> bool:
        """Return whether the device loses the conjugation; tried once, with the first copy into such a view.

        Args:
            keys: of the dispatcher for a call.
        """
        import torch

        if self._is_needed is None:
            self._is_needed = True  # for a call that the trial makes
            found = torch.zeros(1, dtype=torch.complex64, device=self.device)
            view, source = found.conj(), torch.full((1,), 1j, dtype=torch.complex64, device=self.device)
            self._below(keys, view, source, False)
            self._is_needed = complex(found.cpu()[0]) != -1j
        return self._is_needed

    @staticmethod
    def _below(keys: Any, target: Any, source: Any, non_blocking: bool) -> Any:
        import torch

        below = keys & private_torch.dispatch_keyset_full_after(private_torch.DispatchKey.Conjugate)
        return torch.ops.aten.copy_.default.redispatch(below, target, source, non_blocking)


class KernelSlot(Slot):
    """The kernel of ``copy_`` for conjugated tensors; without one PyTorch calls that of the device.

    Args:
        operators: ``torch.ops.aten``.
        name: how the slot is shown.
    """

    __slots__ = ()
    #: The kernel that is registered: the dispatcher cannot be read.
    registered: Optional[Kernel] = None

    def __init__(self, operators: Any, name: str) -> None:
        super().__init__(operators, "copy_ (Conjugate)", name)

    def read(self) -> Any:
        """Return the kernel that a patch has registered."""
        return ABSENT if KernelSlot.registered is None else KernelSlot.registered

    def write(self, raw: Any) -> None:
        """Register a kernel, or none."""
        if KernelSlot.registered is not None:
            KernelSlot.registered.remove()
            KernelSlot.registered = None
        if raw is not ABSENT:
            raw.register()
            KernelSlot.registered = raw


class RegisterKernel(SlotChange):
    """Register the kernel."""

    def __init__(self) -> None:
        super().__init__(target=pc.Target.parse(TARGET))

    @property
    def kind(self) -> str:
        return "register"

    @property
    def source(self) -> Any:
        return Kernel.copy

    @property
    def runs(self) -> Sequence[Any]:
        return (Kernel.copy,)

    def find_slot(self, target: pc.Target, module: Any) -> Slot:
        import torch

        return KernelSlot(torch.ops.aten, str(target))

    def build(self, below: Any, slot: Slot) -> Kernel:
        return Kernel()


CONJUGATED_COPIES = pc.Patch(
    NAME,
    [RegisterKernel()],
    summary="writes through a conjugated view keep its conjugation",
    requires="torch>=2.4",
    needs="torch_npu",
    checks=pc.Check("torch_npu_patches.checks:conjugated_writes", dtypes={"float32": 1e-5}),
)
