"""Importing ``mx_driving.patcher`` lets what asks for CUDA get the NPU, as importing mx_driving does."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")
pytest.importorskip("npu_emulator")

BEFORE = """
    import sys
    import npu_emulator
    import mx_driving_compat

    npu_emulator.install()
    installation = mx_driving_compat.install()
"""
AFTER = """
    print(torch.cuda.is_available(), torch.zeros(1, device="cuda").device)
    with PatcherBuilder().add_module_patch("torch", Patch(index)).build():
        print(torch.zeros(1, device="cuda").device)
    print(torch.cuda.is_available())
    installation.uninstall()
"""
IMPORT = "    from mx_driving.patcher import Patch, PatcherBuilder, index\n"
ORDERS = {
    "before torch": IMPORT + "    print('torch' in sys.modules)\n    import torch\n",
    "after torch": "    import torch\n" + IMPORT + "    print(False)\n",
}


@pytest.mark.parametrize("order", ORDERS)
def test_cuda_is_the_npu_until_a_patcher_restores_everything(order: str) -> None:
    program = textwrap.dedent(BEFORE + ORDERS[order] + AFTER)
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout.splitlines() == ["False", "True npu:0", "npu:0", "False"], done.stderr
