from __future__ import annotations

from typing import TYPE_CHECKING
import torch_npu  # noqa: F401

if TYPE_CHECKING:
    import torch


def stream(model) -> torch.npu.Stream:
    return model.npu()
