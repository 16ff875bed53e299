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
    """Name the NPU where the fake CANN is in use: in this process, or in the process that has started it."""
    from fake_cann.environment import finds_libraries

    return ["npu"] if finds_libraries() else []
