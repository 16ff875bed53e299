"""``apex.amp`` on torch's own mixed precision: ``initialize``, ``scale_loss``, ``master_params``, state dicts.

The interface and the meaning of the levels are those of NVIDIA apex 0.1 (documentation of ``apex.amp``):

=====  ====================================================================  ==================
level  here                                                                  loss scale
=====  ====================================================================  ==================
O0     float32                                                               1
O1     autocast to float16                                                   dynamic
O2     autocast to float16; weights stay float32, they are the master copy   dynamic
O3     the model in float16, inputs cast                                     1
=====  ====================================================================  ==================

O2 differs from apex in where the float16 copy lives: apex keeps the model in float16 and a second, float32 set of
weights in the optimizer; here the weights are float32 and are cast where an operation wants float16.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional, Union

from patchcore.plugin import counted
from torch_npu_patches.transfer_to_npu.apex.scaling import LossScaler

__all__ = ["initialize", "load_state_dict", "master_params", "scale_loss", "state_dict"]

_LEVELS = ("O0", "O1", "O2", "O3")

_scalers: list[LossScaler] = []


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    *,
    loss_scale: Union[float, str, None] = None,
    num_losses: int = 1,
    min_loss_scale: Optional[float] = None,
    max_loss_scale: float = 2.0**24,
    verbosity: int = 1,
) -> Any:
    """Prepare models and optimizers for mixed precision; return them, as they were given.

    Args:
        models: a ``torch.nn.Module`` or a list of them, changed in place.
        optimizers: a ``torch.optim.Optimizer`` or a list of them, or ``None``.
        enabled: ``False`` does nothing, and makes :func:`scale_loss` hand out the loss as it is.
        opt_level: ``O0`` to ``O3``.
        loss_scale: a number, ``"dynamic"``, or ``None`` for the value of the level.
        num_losses: how many losses are scaled, each by itself.
        min_loss_scale, max_loss_scale: bounds of a dynamic scale.
        verbosity: accepted for programs that pass it; nothing is printed.

    Raises:
        ValueError: there is no such level or loss scale.
    """
    if opt_level not in _LEVELS:
        raise ValueError(f"apex.amp.initialize: opt_level is one of {', '.join(_LEVELS)}, found {opt_level!r}")
    if enabled:
        for model in _listed(models):
            _prepare_model(model, opt_level)
    scale = loss_scale if loss_scale is not None else "dynamic" if opt_level in ("O1", "O2") else 1.0
    if not enabled:
        scale = 1.0
    _scalers[:] = [LossScaler(scale, at_least=min_loss_scale, at_most=max_loss_scale) for _ in range(num_losses)]
    for optimizer in _listed(optimizers):
        _prepare_optimizer(optimizer)
    return models if optimizers is None else (models, optimizers)


@contextlib.contextmanager
def scale_loss(
    loss: Any, optimizers: Any, loss_id: int = 0, model: Any = None, delay_unscale: bool = False
) -> Iterator[Any]:
    """Hand out the scaled loss, to call ``backward`` on; at the end of the block the gradients are unscaled.

    Gradients that are there already, from an earlier block, are kept and added to.

    Args:
        loss: a tensor of one element.
        optimizers: those whose parameters get gradients from it. They skip their next step if one is not finite.
        loss_id: which of ``num_losses``.
        model: accepted for programs that pass it.
        delay_unscale: leave the gradients scaled, for more of them to be added before they are unscaled.

    Raises:
        RuntimeError: :func:`initialize` was not called, or with fewer losses.
    """
    if not 0 <= loss_id < len(_scalers):
        raise RuntimeError(
            f"apex.amp.scale_loss: loss_id={loss_id} of {counted(len(_scalers), 'loss')}; call amp.initialize(..., "
            f"num_losses={loss_id + 1}) first"
        )
    scaler = _scalers[loss_id]
    listed = _listed(optimizers)
    parameters = [parameter for optimizer in listed for parameter in master_params(optimizer)]
    scaler.set_aside(parameters)
    yield loss.float() * scaler.scale
    if delay_unscale:
        return
    if not scaler.unscale(parameters):
        for optimizer in listed:
            optimizer._apex_amp_skips = True


def master_params(optimizer: Any) -> Iterable[Any]:
    """Return the parameters that ``optimizer`` updates, to clip their gradients."""
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def state_dict(destination: Optional[dict[str, Any]] = None) -> dict[str, Any]:
    """Return the loss scales, for a checkpoint."""
    found = {} if destination is None else destination
    found.update((f"loss_scaler{number}", scaler.state_dict()) for number, scaler in enumerate(_scalers))
    return found


def load_state_dict(state_dict: dict[str, Any]) -> None:
    """Take over loss scales from a checkpoint; :func:`initialize` comes first.

    Raises:
        ValueError: it has another number of losses.
    """
    if len(state_dict) != len(_scalers):
        expected = counted(len(_scalers), "loss scaler")
        raise ValueError(f"apex.amp.load_state_dict: expected {expected}, found {len(state_dict)}")
    for number, scaler in enumerate(_scalers):
        scaler.load_state_dict(state_dict[f"loss_scaler{number}"])


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _prepare_model(model: Any, level: str) -> None:
    if level == "O0":
        model.float()
    elif level == "O3":
        model.half()
        model.forward = _with_half_inputs(model.forward)
    else:
        model.forward = _under_autocast(model.forward)


def _under_autocast(forward: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    @functools.wraps(forward)
    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("npu", dtype=torch.float16):
            outputs = forward(*args, **kwargs)
        return _cast(outputs, torch.float32)

    return under_autocast


def _with_half_inputs(forward: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    @functools.wraps(forward)
    def with_half_inputs(*args: Any, **kwargs: Any) -> Any:
        return forward(*_cast(args, torch.float16), **_cast(kwargs, torch.float16))

    return with_half_inputs


def _cast(value: Any, dtype: Any) -> Any:
    """Cast the floating point tensors in nested tuples, lists and dictionaries."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _cast(item, dtype) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(item, dtype) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    return value


def _prepare_optimizer(optimizer: Any) -> None:
    """Let ``step`` do nothing once after gradients that were not finite, as apex does."""
    step = optimizer.step
    optimizer._apex_amp_skips = False

    @functools.wraps(step)
    def step_unless_overflown(*args: Any, **kwargs: Any) -> Any:
        if optimizer._apex_amp_skips:
            optimizer._apex_amp_skips = False
            return None
        return step(*args, **kwargs)

    optimizer.step = step_unless_overflown
