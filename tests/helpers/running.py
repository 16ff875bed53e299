"""Programs in processes of their own, which they may change for good.

They have the NPU that the tests have: the emulated one, or the real torch_npu on the fake CANN.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest


def on_cann() -> bool:
    """Tell whether this process has the real torch_npu on the fake CANN."""
    if importlib.util.find_spec("fake_cann") is None:
        return False
    from fake_cann.environment import finds_libraries

    return finds_libraries()


ON_CANN = on_cann()
#: The option of patchcore run for the NPU of these tests.
OPTION = "--emulate-npu=cann" if ON_CANN else "--emulate-npu=imitation"
INSTALL = "" if ON_CANN else "import npu_emulator; npu_emulator.install(adapter='imitation')\n"
#: The same with the kernels of mx_driving and mmcv.
INSTALL_KERNELS = (
    "from fake_cann.kernels import install_kernels; install_kernels()\n"
    if ON_CANN
    else "import npu_emulator; npu_emulator.install(adapter='imitation')\n"
)


#: For tests about npu-emulator's own torch_npu and device.
ABOUT_THE_IMITATION = pytest.mark.skipif(ON_CANN, reason="is about the imitation of torch_npu")


def without_npu() -> dict[str, str]:
    """Return the variables of a process without an NPU: there torch_npu, if it is installed, cannot be imported."""
    if not ON_CANN:
        return dict(os.environ)
    environ = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    return {**environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def without_note(printed: str) -> str:
    """Return what a program has printed, without the line that torch_npu prints on stdout where CANN is fake."""
    return printed.replace("Warning: ASCEND_HOME_PATH environment variable is not set.\n", "")


def output_of(code: str, *arguments: str, **environ: str) -> str:
    """Return what a program prints that ends well.

    Args:
        code: the program.
        arguments: of the program.
        environ: variables besides those of this process.
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return without_note(done.stdout)
