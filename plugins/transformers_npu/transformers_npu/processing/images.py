"""Fast image processors of transformers 4 that work on the NPU, where a program chooses no device.

They compute on the device of the pictures, which is the CPU for pictures that were read from files.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc

__all__ = ["FAST_IMAGES", "preprocess_on_npu"]


def preprocess_on_npu(original: Any, self: Any, images: Any, *args: Any, **kwargs: Any) -> Any:
    """Process pictures on the current NPU unless the call or the processor names a device.

    Args:
        original: ``BaseImageProcessorFast.preprocess``.
        self: the processor.
        images: of the call.
        args: of the call.
        kwargs: of the call.
    """
    import torch

    if kwargs.get("device") is None and getattr(self, "device", None) is None and torch.npu.is_available():
        kwargs["device"] = torch.device("npu", torch.npu.current_device())
    return original(self, images, *args, **kwargs)


FAST_IMAGES = pc.Patch(
    "transformers.fast_images",
    pc.Wrap("transformers.image_processing_utils_fast:BaseImageProcessorFast.preprocess", preprocess_on_npu),
    summary="fast image processors of transformers 4 work on the NPU, where no device is chosen",
    requires=["transformers>=4.51,<5", "torch>=2.4"],
    needs=["torch_npu"],
    default=False,
    legacy_names=["BaseImageProcessorFast_preprocess", "preprocess", "Qwen2VL_preprocess", "_preprocess"],
)
