"""Kernels in Python, for operators that have no kernel on the CPU to borrow, or may not borrow it.

torch sends convolutions, recurrent cells, attention and synchronised batch norm of a device that it does not know to
operators of their own, most of which only CUDA has kernels for.
"""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Register the kernels for the active core. Once per process.

    Raises:
        npu_emulator.errors.EmulationError: no core is active.
    """
    from npu_emulator.device import active
    from npu_emulator.device.kernels import (
        attention,
        conjugates,
        convolution,
        hosted,
        metadata,
        recurrent,
        sync_batch_norm,
    )
    from npu_emulator.device.kernels.library import KernelLibrary

    core, library = active(), KernelLibrary()
    modules = [attention, conjugates, hosted, recurrent, sync_batch_norm]
    if core.name == "python":  # the compiled core has its own, which are called more often than all others
        modules += [convolution, metadata]
    for module in modules:
        module.register(library, core)
