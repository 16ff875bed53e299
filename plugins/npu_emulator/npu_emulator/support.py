"""Names the emulated NPU to every Patcher, also to those that load other plugins only.

The entry point is in the group ``patchcore_support``, whose plugins are loaded with every Patcher. A program that
installs the emulation itself may list other plugins in ``PATCHCORE_PLUGINS``; its patches must know all the same that
the kernels which they call are emulated.
"""

from __future__ import annotations

from collections.abc import Sequence

from patchcore import hookimpl

__all__ = ["emulated_devices"]


@hookimpl
def emulated_devices() -> Sequence[str]:
    """Name the NPU if it is emulated in this process, or if only the kernels of mx_driving are."""
    from npu_emulator.installation import emulates

    return ["npu"] if emulates() else []
