"""A hook of mmcv 1.x and of mmengine, which writes the losses of every iteration in full precision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

try:
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    START = "before_train"
except ImportError:  # mmcv 1.x
    from mmcv.runner import HOOKS, Hook

    START = "before_run"

#: Residual branches begin with this factor where they begin with zero.
BRANCH = 0.3
#: Standard deviation of other weights that begin with zero: offsets of deformable convolution and attention.
OFFSETS = 0.02


@HOOKS.register_module()
class LossRecorder(Hook):
    """Writes a line for each iteration: the device and the losses. Before the first, it draws weights that are zero.

    ResNets begin with residual branches that are multiplied by zero, and deformable layers with offsets of zero: what
    is computed there would not show in the losses.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        setattr(self, START, self._draw)

    def _draw(self, runner: Any) -> None:
        generator = torch.Generator().manual_seed(0)
        for parameter in runner.model.parameters():
            if parameter.detach().cpu().any():
                continue
            if parameter.dim() > 1:
                drawn = OFFSETS * torch.randn(parameter.shape, generator=generator)
                parameter.data.copy_(drawn)
        for module in runner.model.modules():
            weight = getattr(module, "weight", None) if "Norm" in type(module).__name__ else None
            if weight is not None and not weight.detach().cpu().any():
                weight.data.fill_(BRANCH)

    def before_train_iter(self, runner: Any, *args: Any, **kwargs: Any) -> None:
        """Compute in float32: mmdet 2 chooses float16 on an NPU by itself, and not on the CPU."""
        for module in runner.model.modules():
            if getattr(module, "fp16_enabled", False):
                module.fp16_enabled = False

    def after_train_iter(self, runner: Any, *args: Any, outputs: Any = None, **kwargs: Any) -> None:
        """Write the line; mmengine passes the batch and the losses, mmcv 1.x has them in the runner."""
        if len(args) > 2:
            outputs = args[2]
        found = runner.outputs["log_vars"] if outputs is None else outputs
        device = next(runner.model.parameters()).device.type
        line = {"device": device, "losses": {name: float(value) for name, value in found.items()}}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
