"""Adds the emulator to patchcore: ``patchcore run --emulate-npu``, and the word "emulated" in every report."""

from __future__ import annotations

import argparse
import os
from typing import Any, Optional

import patchcore as pc

OPTION = "--emulate-npu"
IMITATED = f"{OPTION}=imitation"


class _EmulateNpu(argparse.Action):
    """Refuses an NPU that cannot be emulated at once, before anything is started."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Optional[str] = None
    ) -> None:
        from npu_emulator.adapter import IMITATION
        from npu_emulator.errors import EmulationError
        from npu_emulator.installation import check

        adapter = IMITATION if option == IMITATED else None
        try:
            check(adapter)
        except EmulationError as error:
            parser.error(str(error))
        setattr(namespace, self.dest, adapter or True)


@pc.hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--emulate-npu``, with and without its value. Other plugins have other values: ``--emulate-npu=cann``."""
    parser.add_argument(
        OPTION,
        IMITATED,
        action=_EmulateNpu,
        nargs=0,
        default=False,
        help="emulate an NPU in every process: torch gets a device npu, mx_driving can be imported, and torch_npu, the "
        "real one where it and fake-cann are installed, else an imitation (NPU_EMULATOR_ADAPTER, "
        "NPU_EMULATOR_DEVICES, NPU_EMULATOR_CORE)",
    )
    parser.add_argument(
        "--strict-dtypes",
        action="store_true",
        help="with the imitation: refuse float64 and complex tensors where torch_npu's documentation leaves them out",
    )


@pc.hookimpl(optionalhook=True)
def refuse_run(options: argparse.Namespace) -> Optional[pc.PatchcoreError]:
    """Build the libraries that the real torch_npu needs before the program starts."""
    if not options.emulate_npu:
        return None
    from npu_emulator.errors import EmulationError
    from npu_emulator.installation import prepare

    _set_strict(options)
    try:
        prepare(_adapter(options))
    except EmulationError as error:
        return pc.SettingsError(str(error))
    return None


@pc.hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Emulate in this process, if the run does."""
    if options.emulate_npu:
        from npu_emulator.installation import install

        _set_strict(options)
        install(adapter=_adapter(options))


def _set_strict(options: argparse.Namespace) -> None:
    from npu_emulator.settings import STRICT_DTYPES

    if options.strict_dtypes:
        os.environ[STRICT_DTYPES] = "1"


def _adapter(options: argparse.Namespace) -> Optional[str]:
    return options.emulate_npu if isinstance(options.emulate_npu, str) else None


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
