"""Names the emulated NPU to every Patcher, also to those that load other plugins only.

The entry point is in the group ``patchcore_support``, whose plugins are loaded with every Patcher. A program that
installs the emulation itself may list other plugins in ``PATCHCORE_PLUGINS``; its patches must know all the same that
the kernels which they call are emulated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from patchcore import Section, hookimpl

__all__ = ["emulated_devices", "report_sections"]


@hookimpl
def emulated_devices() -> Sequence[str]:
    """Name the NPU where the fake CANN is in use: in this process, or in the process that has started it."""
    from fake_cann.environment import finds_libraries

    return ["npu"] if finds_libraries() else []


@hookimpl
def report_sections() -> Sequence[Section]:
    """Return a section that CANN is fake; an empty list where it is not in use."""
    environment = sys.modules.get("fake_cann.environment")  # loaded by whoever has installed it
    if environment is None or not environment.is_installed():
        return ()
    from fake_cann.wheel import torch_npu_version

    version = torch_npu_version()
    line = f"torch_npu {version} on a fake CANN: operators are computed by PyTorch on the CPU"
    return (Section("cann", (line,), mark=f"emulated NPU: torch_npu {version}", data={"torch_npu": version}),)
