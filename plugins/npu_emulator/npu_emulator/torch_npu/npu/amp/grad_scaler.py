"""Gradient scaling, with the NPU as its device."""

from __future__ import annotations

from typing import Optional, Union

import torch
from torch import Tensor

__all__ = ["GradScaler"]


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("npu")``, with torch_npu's switch for a constant scale.

    Args:
        init_scale: the scale at first.
        growth_factor: the scale is multiplied by it after steps without overflow.
        backoff_factor: the scale is multiplied by it after an overflow.
        growth_interval: how many steps without overflow let it grow.
        dynamic: ``False`` keeps the scale and looks for no overflow, so that every step is taken.
        enabled: ``False`` makes all methods do nothing but step.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[torch.device, Tensor]:
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        if self._enabled and not self._dynamic:
            for flag in found.values():
                flag.zero_()
        return found

    def update(self, new_scale: Optional[Union[float, Tensor]] = None) -> None:
        """Adapt the scale to the overflows since the last update, or set it.

        Args:
            new_scale: the scale from now on.
        """
        if self._enabled and not self._dynamic and new_scale is None:
            new_scale = self.get_scale()
        super().update(new_scale)
