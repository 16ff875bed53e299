"""CUDA -> NPU: an unmodified CUDA program runs on the NPU, by patches that each can be switched off and reverted.

What is rewritten is in :mod:`.tables`, the patches are in :mod:`.groups`, and :mod:`.audit` tells which lines of the
program were rewritten, how often and from what to what. A device is a whole word in an argument that is known to be a
device: ``torch.load("/data/cuda_ckpts/x")`` loads that file.

``torch.device`` itself is a built-in type and stays: ``torch.device("cuda").type`` is ``"cuda"``, and such a device
means the NPU wherever an argument takes it. A tensor knows where it is: ``x.device.type`` is ``"npu"``, and
``x.is_cuda`` is true. So ``x.device == torch.device("cuda", 0)`` is false, and code that branches on
``x.device.type == "cuda"`` takes the other branch.

What is not done, and stays as torch has it:

- names of torch.cuda without a counterpart (:func:`without_counterpart`), ``torch.cuda.default_generators``,
  ``torch.backends.cuda``, ``torch.backends.cudnn`` and ``torch.version.cuda``;
- devices written inside TorchScript: ``torch.jit.script`` scripts, and its compiled code uses CUDA;
- tables of libraries that were filled with torch's functions before: they hold the unwrapped ones.

``torch.cuda.is_available()`` is true for everybody. A library that takes this for "CUDA kernels can be compiled or
loaded" (Triton, flash-attn, bitsandbytes, the fused kernels of transformers, peft and others) is to be told by its own
setting; ``get_device_capability()`` answers ``(0, 0)`` where torch_npu has none, below any minimum that is asked for.
"""

from __future__ import annotations

from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.conclusion import describe_move, vendor_adapter
from torch_npu_patches.transfer_to_npu.groups import TRANSFER_TO_NPU
from torch_npu_patches.transfer_to_npu.namespace import without_counterpart
from torch_npu_patches.transfer_to_npu.uses import uses_without_counterpart
from torch_npu_patches.transfer_to_npu.visible_devices import changed_too_late

__all__ = [
    "TRANSFER_TO_NPU",
    "audit",
    "changed_too_late",
    "describe_move",
    "uses_without_counterpart",
    "vendor_adapter",
    "without_counterpart",
]
