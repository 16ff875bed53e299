"""The fused optimizers that have a counterpart in ``torch.optim``, with torch_npu's arguments.

Each refers to the paper that torch's documentation of the counterpart names; which options and states there are, and
their defaults, are torch_npu's (``torch_npu/optim``, 2.6). The arithmetic is that of ``torch.optim``'s functions for
single tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adadelta import adadelta
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from npu_emulator.torch_npu.optim._fused import NpuFusedOptimizerBase

__all__ = ["NpuFusedAdadelta", "NpuFusedAdam", "NpuFusedAdamW", "NpuFusedRMSprop", "NpuFusedSGD"]


class NpuFusedSGD(NpuFusedOptimizerBase):
    """``torch.optim.SGD``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate, which torch_npu has no default for.
        momentum: factor of the running sum of gradients.
        dampening: how much less than the whole gradient is added to it.
        weight_decay: factor of the L2 penalty.
        nesterov: whether to look ahead along the momentum.

    Raises:
        ValueError: a number is negative, or nesterov is without momentum or with dampening.
    """

    _states = ("momentum_buffer",)

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        _require_not_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> list[str]:
        return ["momentum_buffer"] if group["momentum"] else []

    def _initial_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        decay = group["weight_decay"]
        return {name: parameter.grad.add(parameter, alpha=decay) for name in self._state_names(group)}

    def _combined_state(self, parameters: list[Tensor], group: dict[str, Any]) -> dict[str, Any]:
        is_first = not any(self.state[parameter] for parameter in parameters)
        return {**super()._combined_state(parameters, group), "is_first_step": is_first}

    def _update(self, group: dict[str, Any], parameters: Tensor, gradients: Tensor, state: dict[str, Any]) -> None:
        buffer = state["momentum_buffer"]
        options = {name: group[name] for name in ("weight_decay", "momentum", "lr", "dampening", "nesterov")}
        # Without a buffer torch makes one, with the values that the combined one has got already.
        buffers = [None if state["is_first_step"] else buffer]
        sgd([parameters], [gradients], buffers, foreach=False, fused=False, maximize=False, **options)
        state["is_first_step"] = False


class _FusedAdam(NpuFusedOptimizerBase):
    """The base of Adam and AdamW, which use ``weight_decay`` differently."""

    _states = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    _step: Callable[..., None]  # of torch, on lists of tensors

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
    ) -> None:
        _require_not_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        _require_betas(betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> list[str]:
        return [name for name in self._states if group["amsgrad"] or name != "max_exp_avg_sq"]

    def _update(self, group: dict[str, Any], parameters: Tensor, gradients: Tensor, state: dict[str, Any]) -> None:
        self._step(**_adam_arguments(group, parameters, gradients, state))


class NpuFusedAdam(_FusedAdam):
    """``torch.optim.Adam``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: factors of the running means of gradients and of their squares.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        amsgrad: whether the greatest mean of squares so far is used.

    Raises:
        ValueError: a number is negative, or a beta is 1 or more.
    """

    _step = staticmethod(adam)


class NpuFusedAdamW(_FusedAdam):
    """``torch.optim.AdamW``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: factors of the running means of gradients and of their squares.
        eps: added to the denominator.
        weight_decay: by which part of itself, times the learning rate, a parameter shrinks.
        amsgrad: whether the greatest mean of squares so far is used.

    Raises:
        ValueError: a number is negative, or a beta is 1 or more.
    """

    _step = staticmethod(adamw)

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


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """``torch.optim.Adadelta``.

    Args:
        params: parameters, or groups of them.
        lr: factor of the change.
        rho: factor of the running mean of squared gradients.
        eps: added within the square roots.
        weight_decay: factor of the L2 penalty.

    Raises:
        ValueError: a number is negative, or rho is more than 1.
    """

    _states = ("square_avg", "acc_delta")

    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        _require_not_negative(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        if rho > 1:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def _update(self, group: dict[str, Any], parameters: Tensor, gradients: Tensor, state: dict[str, Any]) -> None:
        options = {name: group[name] for name in ("lr", "rho", "eps", "weight_decay")}
        averages = [state["square_avg"]], [state["acc_delta"]]
        adadelta([parameters], [gradients], *averages, [_steps_before(state)], foreach=False, maximize=False, **options)


class NpuFusedRMSprop(NpuFusedOptimizerBase):
    """``torch.optim.RMSprop``.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        alpha: factor of the running mean of squared gradients.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        momentum: factor of the running sum of changes.
        centered: whether gradients are divided by an estimate of their deviation from their mean.

    Raises:
        ValueError: a number is negative.
    """

    _states = ("square_avg", "momentum_buffer", "grad_avg")

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
        _require_not_negative(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    def _state_names(self, group: dict[str, Any]) -> list[str]:
        momentum = ["momentum_buffer"] if group["momentum"] > 0 else []
        mean = ["grad_avg"] if group["centered"] else []
        return ["square_avg", *momentum, *mean]

    def _update(self, group: dict[str, Any], parameters: Tensor, gradients: Tensor, state: dict[str, Any]) -> None:
        options = {name: group[name] for name in ("lr", "alpha", "eps", "weight_decay", "momentum", "centered")}
        averages = [[state[name]] for name in ("square_avg", "grad_avg", "momentum_buffer")]
        rmsprop([parameters], [gradients], *averages, [_steps_before(state)], foreach=False, **options)


def _adam_arguments(
    group: dict[str, Any], parameters: Tensor, gradients: Tensor, state: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of ``adam`` and ``adamw`` of ``torch.optim``."""
    beta1, beta2 = group["betas"]
    return {
        "params": [parameters],
        "grads": [gradients],
        "exp_avgs": [state["exp_avg"]],
        "exp_avg_sqs": [state["exp_avg_sq"]],
        "max_exp_avg_sqs": [state["max_exp_avg_sq"]] if group["amsgrad"] else [],
        "state_steps": [_steps_before(state)],
        "foreach": False,
        "fused": False,
        "beta1": beta1,
        "beta2": beta2,
        "maximize": False,
        **{name: group[name] for name in ("amsgrad", "lr", "weight_decay", "eps")},
    }


def _steps_before(state: dict[str, Any]) -> Tensor:
    """Return the number of steps before this one, which torch's functions count up."""
    return torch.tensor(float(state["step"] - 1))


def _require_not_negative(**values: float) -> None:
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"Invalid {name} value: {value}")


def _require_betas(betas: tuple[float, float]) -> None:
    for index, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
