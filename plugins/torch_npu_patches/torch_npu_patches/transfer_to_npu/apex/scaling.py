"""Dynamic loss scaling as ``apex.amp`` does it: per loss, with gradients that add up over several backward passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

__all__ = ["LossScaler"]

#: apex 0.1 (``apex/amp/scaler.py``): the start of a dynamic scale, the factor of a change, and the number of good steps
#: before one.
INITIAL_SCALE = 2.0**16
FACTOR = 2.0
WINDOW = 2000


class LossScaler:
    """Scales one loss and unscales the gradients it gives.

    Args:
        scale: a number, or ``"dynamic"``: halved when a gradient is not finite, doubled after 2000 steps without.
        at_least, at_most: bounds of a dynamic scale.

    Raises:
        ValueError: ``scale`` is neither.
    """

    def __init__(self, scale: Union[float, str], *, at_least: Optional[float] = None, at_most: float = 2.0**24) -> None:
        self.dynamic = scale == "dynamic"
        try:
            self.scale = min(at_most, INITIAL_SCALE) if self.dynamic else float(scale)
        except ValueError:
            raise ValueError(f"apex.amp: a loss scale is a number or 'dynamic', found {scale!r}") from None
        self._at_least = at_least or 0.0
        self._at_most = at_most
        self._good_steps = 0
        self._aside: dict[int, Any] = {}

    def set_aside(self, parameters: Sequence[Any]) -> None:
        """Take away the gradients that are unscaled already, before those of another backward pass are added."""
        for parameter in parameters:
            if parameter.grad is not None and id(parameter) not in self._aside:
                self._aside[id(parameter)] = parameter.grad
                parameter.grad = None

    def unscale(self, parameters: Sequence[Any]) -> bool:
        """Divide the gradients by the scale and put back the ones set aside; return whether all of them are finite.

        Args:
            parameters: those that :meth:`set_aside` was called with.
        """
        import torch

        new = [parameter.grad for parameter in parameters if parameter.grad is not None]
        finite = not new or bool(torch.stack([gradient.isfinite().all() for gradient in new]).all())
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(self.scale)
            earlier = self._aside.pop(id(parameter), None)
            if earlier is not None:
                parameter.grad = earlier if parameter.grad is None else earlier.add_(parameter.grad)
        self._adapt(finite)
        return finite

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, and how many steps were good since it last changed."""
        return {"loss_scale": self.scale, "unskipped": self._good_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        self.scale, self._good_steps = state["loss_scale"], state["unskipped"]

    def _adapt(self, finite: bool) -> None:
        if not self.dynamic:
            return
        if not finite:
            self.scale, self._good_steps = max(self._at_least, self.scale / FACTOR), 0
            return
        self._good_steps += 1
        if self._good_steps == WINDOW:
            self.scale, self._good_steps = min(self._at_most, self.scale * FACTOR), 0
