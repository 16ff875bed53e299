"""Importing this module moves code that uses CUDA to the NPU, as importing torch_npu's own does.

The work is done by the patches ``torch_npu_patches.transfer_to_npu.TRANSFER_TO_NPU`` of the distribution
torch-npu-patches, whose changes are in the report. Where they are applied already nothing happens twice: patchcore
shares a change among all that ask for it.
"""

from __future__ import annotations

import patchcore as pc
from npu_emulator.errors import EmulationError

__all__ = ["patcher"]

try:
    from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU
    from torch_npu_patches.wrapping import COMPILE
except ImportError as error:
    raise EmulationError(
        "torch_npu.contrib.transfer_to_npu: expected the distribution torch-npu-patches, whose patches redirect CUDA "
        f"to the NPU; importing them failed ({error}). Install it: {pc.install_command('torch-npu-patches')}"
    ) from error

#: The Patcher that applied the patches: its ``report()`` lists them, its ``revert()`` reverts them.
patcher = pc.Patcher([COMPILE, *TRANSFER_TO_NPU])
patcher.apply()
