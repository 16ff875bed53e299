from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def stream(model) -> torch.cuda.Stream:
    return model.cuda()
