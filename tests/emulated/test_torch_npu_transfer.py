"""``torch_npu.contrib.transfer_to_npu``: importing it moves code that uses CUDA to the NPU."""

from __future__ import annotations

import subprocess
import sys

from running import INSTALL, output_of

import patchcore

PREAMBLE = INSTALL + "import torch, torch_npu\n"


class TestTransferToNpu:
    def test_code_for_cuda_gets_the_npu_and_all_of_it_can_be_taken_back(self) -> None:
        printed = output_of(
            PREAMBLE + "from torch_npu.contrib import transfer_to_npu\n"
            "print(torch.ones(2, device='cuda').device, torch.ones(1).cuda().is_npu, torch.cuda.device_count() > 0)\n"
            "transfer_to_npu.patcher.revert()\n"
            "print(torch.cuda.device_count())\n"
        )
        assert printed.split() == ["npu:0", "True", "True", "0"]

    def test_patches_that_are_applied_already_are_not_applied_twice(self) -> None:
        printed = output_of(
            PREAMBLE + "import patchcore\n"
            "from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU\n"
            "patchcore.Patcher(TRANSFER_TO_NPU).apply()\n"
            "patched = lambda: (torch.zeros, torch.Tensor.to, torch.cuda.device_count)\n"
            "before = patched()\n"
            "import torch_npu.contrib.transfer_to_npu\n"
            "print(patched() == before, torch.zeros(1, device='cuda').device)\n"
        )
        assert printed.split() == ["True", "npu:0"]

    def test_without_the_patches_it_says_what_to_install(self) -> None:
        program = "import sys\nsys.modules['torch_npu_patches'] = None\nimport torch_npu.contrib.transfer_to_npu\n"
        ran = subprocess.run([sys.executable, "-c", PREAMBLE + program], capture_output=True, text=True, timeout=900)
        assert ran.returncode == 1
        assert "EmulationError" in ran.stderr
        assert patchcore.install_command("torch-npu-patches") in ran.stderr
