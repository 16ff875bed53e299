"""The fused optimizers that have a counterpart in ``torch.optim``, with torch_npu's arguments.

Each refers to the paper that torch's documentation of the counterpart names; which options there are, and their
defaults, are torch_npu's (``torch_npu/optim``, 2.6).
"""

from __future__ import annotations

from typing import Any

import torch

from npu_emulator.torch_npu.optim._fused import NpuFusedOptimizerBase

__all__ = ["NpuFusedAdadelta", "NpuFusedAdam", "NpuFusedAdamW", "NpuFusedRMSprop", "NpuFusedSGD"]


class NpuFusedSGD(NpuFusedOptimizerBase, torch.optim.SGD):
    """``torch.optim.SGD``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate, which torch_npu has no default for.
        momentum: factor of the running sum of gradients.
        dampening: how much less than the whole gradient is added to it.
        weight_decay: factor of the L2 penalty.
        nesterov: whether to look ahead along the momentum.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov)


class NpuFusedAdam(NpuFusedOptimizerBase, torch.optim.Adam):
    """``torch.optim.Adam``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: factors of the running means of gradients and of their squares.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        amsgrad: whether the greatest mean of squares so far is used.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)


class NpuFusedAdamW(NpuFusedOptimizerBase, torch.optim.AdamW):
    """``torch.optim.AdamW``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: factors of the running means of gradients and of their squares.
        eps: added to the denominator.
        weight_decay: by which part of itself, times the learning rate, a parameter shrinks.
        amsgrad: whether the greatest mean of squares so far is used.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)


class NpuFusedAdadelta(NpuFusedOptimizerBase, torch.optim.Adadelta):
    """``torch.optim.Adadelta``.

    Args:
        params: parameters, or groups of them.
        lr: factor of the change.
        rho: factor of the running mean of squared gradients.
        eps: added within the square roots.
        weight_decay: factor of the L2 penalty.
    """

    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        super().__init__(params, lr, rho, eps, weight_decay)


class NpuFusedRMSprop(NpuFusedOptimizerBase, torch.optim.RMSprop):
    """``torch.optim.RMSprop``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        alpha: factor of the running mean of squared gradients.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        momentum: factor of the running sum of changes.
        centered: whether gradients are divided by an estimate of their deviation from their mean.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ) -> None:
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered)
