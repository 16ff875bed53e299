"""Adds the fake CANN to patchcore: ``patchcore run --emulate-npu=cann``, and ``--emulate-npu`` without npu-emulator."""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Any, Optional

import patchcore as pc

#: A whole option, value included: ``--emulate-npu`` alone is an option of npu-emulator, where that is installed.
OPTION = "--emulate-npu=cann"
_DEFAULT = "--emulate-npu"


class _FakeCann(argparse.Action):
    """Refuses a machine where the real torch_npu cannot run, before anything is started."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Optional[str] = None
    ) -> None:
        from fake_cann.environment import refuse_missing
        from fake_cann.errors import FakeCannError

        try:
            refuse_missing()
        except FakeCannError as error:
            parser.error(str(error))
        setattr(namespace, self.dest, True)


@pc.hookimpl(optionalhook=True, trylast=True)
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--emulate-npu=cann``; also ``--emulate-npu``, unless npu-emulator has added it."""
    for option in (OPTION, _DEFAULT):
        with contextlib.suppress(argparse.ArgumentError):
            parser.add_argument(
                option,
                dest="fake_cann",
                action=_FakeCann,
                nargs=0,
                default=False,
                help="let the installed torch_npu compute on the CPU in every process, on a fake CANN "
                "(FAKE_CANN_DEVICES, FAKE_CANN_MEMORY_MIB, FAKE_CANN_SOC)",
            )


@pc.hookimpl(optionalhook=True)
def refuse_run(options: argparse.Namespace) -> Optional[pc.PatchcoreError]:
    """Build the libraries before the program starts, so that it is not started without them."""
    if not options.fake_cann:
        return None
    from fake_cann.environment import prepare
    from fake_cann.errors import FakeCannError

    try:
        prepare(os.environ)
    except FakeCannError as error:
        return pc.SettingsError(str(error))
    return None


@pc.hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Install the fake CANN in this process, if the run has it."""
    if options.fake_cann:
        from fake_cann.environment import install
        from fake_cann.kernels import install_kernels

        install()
        install_kernels()
