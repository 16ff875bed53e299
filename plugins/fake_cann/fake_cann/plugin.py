"""Adds the fake CANN to patchcore: ``patchcore run --emulate-npu=cann``, and its name in every report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import patchcore as pc

#: A whole option, value included: ``--emulate-npu`` alone is an option of npu-emulator, which need not be here.
OPTION = "--emulate-npu=cann"


@pc.hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--emulate-npu=cann``."""
    parser.add_argument(
        OPTION,
        dest="fake_cann",
        action="store_true",
        help="let the installed torch_npu compute on the CPU in every process, on a fake CANN "
        "(FAKE_CANN_DEVICES, FAKE_CANN_MEMORY_MIB, FAKE_CANN_SOC)",
    )


@pc.hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Install the fake CANN in this process, if the run has it."""
    if options.fake_cann:
        from fake_cann.environment import install
        from fake_cann.kernels import install_kernels

        install()
        install_kernels()


@pc.hookimpl
def report_sections() -> Sequence[pc.Section]:
    """Return a section that CANN is fake; an empty list where it is not in use."""
    environment = sys.modules.get("fake_cann.environment")  # loaded by whoever has installed it
    if environment is None or not environment.is_installed():
        return ()
    from fake_cann.wheel import torch_npu_version

    version = torch_npu_version()
    line = f"torch_npu {version} on a fake CANN: operators are computed by PyTorch on the CPU"
    return (pc.Section("cann", (line,), mark="fake CANN", data={"torch_npu": version}),)
