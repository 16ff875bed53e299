"""What the fused optimizers have in common, and have different from torch's.

The hardware's combine parameters, gradients and states into one tensor per dtype at the first step, and compute on
these. From that follow the rules that are checked here; the arithmetic is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch.optim import Optimizer

from npu_emulator.torch_npu.npu._refusals import refuse

__all__ = ["NpuFusedOptimizerBase"]


class NpuFusedOptimizerBase(Optimizer):
    """Base of the fused optimizers, to be combined with one of torch's."""

    #: By which torch_npu's GradScaler and apex know them.
    is_fused_optimizer = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Update the parameters that have gradients.

        Args:
            closure: computes the loss once more, with gradients.

        Raises:
            TypeError: a parameter is neither float32 nor float16.
            RuntimeError: a parameter is not on the NPU, or its gradient is sparse.
        """
        self._check_parameters()
        return super().step(closure)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set the gradients to zero.

        Args:
            set_to_none: must be false: the gradients are parts of a combined tensor.

        Raises:
            ValueError: it is not.
        """
        if set_to_none:
            raise ValueError("set_to_none is not supported in fused optimizers")
        super().zero_grad(set_to_none=False)

    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> Tensor:
        """Scale all gradients of the optimizer so that their norm is at most a given one.

        The same arithmetic as ``torch.nn.utils.clip_grad_norm_`` on all parameters, but norms are taken in float32.

        Args:
            max_norm: the greatest norm.
            norm_type: which norm, ``inf`` for the maximum.

        Returns:
            The norm before, a tensor of no dimensions; on the CPU when there are no gradients.

        Raises:
            TypeError: see :meth:`step`.
            RuntimeError: see there.
        """
        self._check_parameters()
        gradients = [parameter.grad for parameter in self._parameters()]
        if not gradients:
            return torch.tensor(0.0)
        with torch.no_grad():
            norms = [torch.linalg.vector_norm(gradient.float(), float(norm_type)) for gradient in gradients]
            first = norms[0].device
            total = torch.linalg.vector_norm(torch.stack([norm.to(first) for norm in norms]), float(norm_type))
            factor = float(max_norm) / (total + 1e-6)
            if factor < 1:
                for gradient in gradients:
                    gradient.mul_(factor.to(gradient.device))
        return total

    def get_combined_params(self) -> list[Optional[Tensor]]:
        """Raise: see below.

        Raises:
            NotEmulated: always: parameters stay tensors of their own.
        """
        refuse(f"{type(self).__name__}.get_combined_params", "parameters are not combined into one tensor")

    def get_combined_grads(self) -> list[Optional[Tensor]]:
        """Raise: see below.

        Raises:
            NotEmulated: always: gradients stay tensors of their own.
        """
        refuse(f"{type(self).__name__}.get_combined_grads", "gradients are not combined into one tensor")

    def _parameters(self) -> Iterator[Tensor]:
        """Return the parameters that have gradients."""
        for group in self.param_groups:
            yield from (parameter for parameter in group["params"] if parameter.grad is not None)

    def _check_parameters(self) -> None:
        name = type(self).__name__
        for parameter in self._parameters():
            if parameter.device.type != "npu":
                raise RuntimeError(f"{name}: expected parameters on the NPU, found one on {parameter.device}")
            if parameter.dtype not in (torch.float32, torch.float16):
                raise TypeError(
                    f"Fused optimizer's parameters must be either float32 or float16, but received {parameter.dtype}"
                )
            if parameter.grad.is_sparse:
                raise RuntimeError(f"{name} does not support sparse gradients")
