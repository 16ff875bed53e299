"""Adds the emulator to patchcore: ``patchcore run --emulate-npu``, and the word "emulated" in every report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import patchcore as pc
from patchcore.plugin import counted

OPTION = "--emulate-npu"


class _EmulateNpu(argparse.Action):
    """Refuses a real NPU library at once, before anything is started."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Optional[str] = None
    ) -> None:
        from npu_emulator.errors import EmulationError
        from npu_emulator.installation import check

        try:
            check()
        except EmulationError as error:
            parser.error(str(error))
        setattr(namespace, self.dest, True)


@pc.hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--emulate-npu``, with and without its value. Other plugins have other values: ``--emulate-npu=cann``."""
    parser.add_argument(
        OPTION,
        f"{OPTION}=imitation",
        action=_EmulateNpu,
        nargs=0,
        default=False,
        help="emulate an NPU in every process: torch gets a device npu, torch_npu and mx_driving can be imported "
        "(NPU_EMULATOR_DEVICES, NPU_EMULATOR_CORE)",
    )
    parser.add_argument(
        "--strict-dtypes",
        action="store_true",
        help="with --emulate-npu: refuse float64 and complex tensors where torch_npu's documentation leaves them out",
    )


@pc.hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Emulate in this process, if the run does."""
    if options.emulate_npu:
        from npu_emulator.installation import install
        from npu_emulator.settings import STRICT_DTYPES

        if options.strict_dtypes:
            os.environ[STRICT_DTYPES] = "1"
        install()


@pc.hookimpl
def advise(name: str, command: str) -> Optional[str]:
    """Return advice on a name of mx_driving or torch_npu that has ended a program because it has no stand-in."""
    if command == "error" and "cannot import name" in name:
        from npu_emulator.mx_driving import OF_THE_PATCHER

        if any(f"name '{found}' from 'npu_emulator.mx_driving'" in name for found in OF_THE_PATCHER):
            return "patchcore run --compat mx_driving provides the patcher of mx_driving"
        for library in ("mx_driving", "torch_npu"):
            if f"from 'npu_emulator.{library}" in name:
                return (
                    f"{library} is emulated here and lacks that name, which an NPU may have; dir({library}) has "
                    "those that there are, docs/emulator.md the limits"
                )
    return None


@pc.hookimpl
def report_sections() -> Sequence[pc.Section]:
    """Return a section that the NPU is emulated; an empty list where it is not."""
    from npu_emulator.installation import current_settings, device_is_active, is_installed

    if not is_installed():
        return ()
    settings = current_settings()
    core = f"core {settings.core}, which starts when torch is imported"
    if device_is_active():
        from npu_emulator.device import active

        core = f"{active().name} core"
    lines = list(_compiled())
    line = f"emulated: {counted(settings.devices, 'device')} ({settings.chip}) on the CPU, {core}"
    data = {"core": settings.core, "devices": settings.devices}
    return (pc.Section("npu", (line, *lines), mark="emulated NPU", data=data),)


def _compiled() -> Iterator[str]:
    """Yield a section on the graphs that torch.compile ran without generating code for the NPU."""
    compiling = sys.modules.get("npu_emulator.device.compiling")
    for options, count in compiling.graphs_without_inductor.items() if compiling else ():
        without = f" without {options}" if options else ""
        graphs = counted(count, "graph")
        yield f"torch.compile ran {graphs} by aot_eager{without}: inductor generates no code for an emulated NPU"
