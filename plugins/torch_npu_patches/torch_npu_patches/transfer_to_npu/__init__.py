"""CUDA -> NPU: an unmodified CUDA program runs on the NPU, by patches that each can be switched off and reverted.

The rewritten names are in :mod:`.tables`, the patches are in :mod:`.groups`, and :mod:`.audit` records which lines of
the program were rewritten, how often, from which value and to which. A device is a whole word in an argument that is
known to be a device: ``torch.load("/data/cuda_ckpts/x")`` loads that file.

``torch.device`` itself is a built-in type and stays: ``torch.device("cuda").type`` is ``"cuda"``, and such a device
means the NPU wherever an argument takes it. A tensor knows where it is: ``x.device.type`` is ``"npu"``, and
``x.is_cuda`` is true. The two are equal and hash as one (:mod:`.equal_devices`), and lines that compare
``x.device.type`` with ``"cuda"`` are edited (:mod:`torch_npu_patches.cuda_names`).

Limits; these stay as torch has them:

- names of torch.cuda without a counterpart (:func:`without_counterpart`), ``torch.backends.cuda``,
  ``torch.backends.cudnn`` and ``torch.version.cuda``;
- devices in TorchScript that are no literal in a call: ``torch.zeros(2, device="cuda")``, ``x.to("cuda")``,
  ``x.cuda()`` and ``x.is_cuda`` are exchanged when a function is scripted, and a device in a variable, an attribute or
  an argument is not;
- ``super().__new__(cls, "cuda")`` in a class derived from ``torch.Generator``: ``Own("cuda")`` is exchanged;
- the device of ``torch.Tensor(2)`` after ``torch.set_default_tensor_type("torch.cuda.FloatTensor")``, which sets the
  default dtype and the default device here: torch refuses types of NPUs there;
- tables of libraries that were filled with torch's functions before: they hold the unwrapped ones.

``torch.cuda.is_available()`` is true for everybody. A library that takes this for "CUDA kernels can be compiled or
loaded" (Triton, flash-attn, bitsandbytes, the fused kernels of transformers, peft and others) is to be told by its own
setting; ``get_device_capability()`` answers ``(0, 0)`` where torch_npu has none, and ``get_device_properties()`` has
``major`` and ``minor`` 0, below any minimum that is looked for. Other decisions of torch by them (``grep
get_device_properties`` in torch 2.13): ``has_triton`` and ``is_triton_capable`` are False, inductor's kind of GPU is
``npu``, and the templates, attention kernels and code generators for CUDA devices are not reached by tensors on an NPU.
``warp_size``, ``max_threads_per_multi_processor`` and other numbers that only GPUs have are ``None``.
"""

from __future__ import annotations

from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.conclusion import describe_move, vendor_adapter
from torch_npu_patches.transfer_to_npu.groups import PREFIX, TRANSFER_TO_NPU
from torch_npu_patches.transfer_to_npu.namespace import without_counterpart
from torch_npu_patches.transfer_to_npu.uses import uses_without_counterpart
from torch_npu_patches.transfer_to_npu.visible_devices import changed_too_late

#: Name of the patch that stands in for apex.
APEX = f"{PREFIX}.apex"

__all__ = [
    "APEX",
    "TRANSFER_TO_NPU",
    "audit",
    "changed_too_late",
    "describe_move",
    "uses_without_counterpart",
    "vendor_adapter",
    "without_counterpart",
]
