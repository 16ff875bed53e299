"""Names the emulated NPU to every Patcher, also to those that load other plugins only.

The entry point is in the group ``patchcore_support``, whose plugins are loaded with every Patcher. A program that
installs the emulation itself may list other plugins in ``PATCHCORE_PLUGINS``; its patches must know all the same that
the kernels which they call are emulated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from patchcore import Section, hookimpl
from patchcore.plugin import counted

__all__ = ["emulated_devices", "report_sections"]


@hookimpl
def emulated_devices() -> Sequence[str]:
    """Name the NPU if it is emulated in this process, or if only the kernels of mx_driving are."""
    from npu_emulator.installation import emulates

    return ["npu"] if emulates() else []


@hookimpl
def report_sections() -> Sequence[Section]:
    """Return a section that the NPU is an imitation; an empty list where it is not."""
    from npu_emulator.installation import current_settings, device_is_active, is_imitated, why_imitated

    if not is_imitated():
        return ()
    settings = current_settings()
    core = f"core {settings.core}, which starts when torch is imported"
    if device_is_active():
        from npu_emulator.device import active

        core = f"{active().name} core"
    why = why_imitated()
    lines = [*filter(None, [why]), *_compiled()]
    line = f"an imitation of torch_npu: {counted(settings.devices, 'device')} ({settings.chip}) on the CPU, {core}"
    data = {"adapter": "imitation", "why": why, "core": settings.core, "devices": settings.devices}
    return (Section("npu", (line, *lines), mark="emulated NPU: imitation", data=data),)


def _compiled() -> Iterator[str]:
    """Yield a section on the graphs that torch.compile ran without generating code for the NPU."""
    compiling = sys.modules.get("npu_emulator.device.compiling")
    for options, count in compiling.graphs_without_inductor.items() if compiling else ():
        without = f" without {options}" if options else ""
        graphs = counted(count, "graph")
        yield f"torch.compile ran {graphs} by aot_eager{without}: inductor generates no code for an emulated NPU"
