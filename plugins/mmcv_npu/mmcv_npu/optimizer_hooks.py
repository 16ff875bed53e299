"""The fused optimizers of torch_npu in the optimizer hooks of mmcv 1.x: their clipping, and their gradients.

All four hooks clip with ``OptimizerHook.clip_grads``, which is told the parameters and not the optimizer; their
``after_train_iter`` knows it. So the optimizer is handed from the one to the other, and the classes, their entries in
the registry and hooks that are built already are unchanged.

A fused optimizer keeps all gradients in one tensor (torch_npu 2.6, ``NpuFusedOptimizerBase``). The two fp16 hooks call
``zero_grad`` of the model too, which from torch 2.0 on does not set gradients to zero but takes them away, and with
them those in that tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Callable, Optional

import patchcore as pc

_HOOKS = "mmcv.runner.hooks.optimizer"

#: The arguments of ``NpuFusedOptimizerBase.clip_grad_norm_fused_`` (torch_npu 2.6).
FUSED_ARGUMENTS = frozenset(["max_norm", "norm_type"])

_optimizer: ContextVar[Any] = ContextVar("the optimizer of the hook that runs", default=None)


def after_train_iter(original: Callable[..., Any], self: Any, runner: Any) -> Any:
    """Wrap ``after_train_iter``: tell :func:`clip_grads` the optimizer, and let a fused one keep its gradients.

    Args:
        original: the method of the hook's class.
        self: the hook.
        runner: mmcv's runner.
    """
    if not hasattr(runner.optimizer, "clip_grad_norm_fused_"):
        return original(self, runner)
    token = _optimizer.set(runner.optimizer)
    try:
        with _zeroed_in_place(runner.model):
            return original(self, runner)
    finally:
        _optimizer.reset(token)


@contextmanager
def _zeroed_in_place(model: Any) -> Iterator[None]:
    """Let ``model.zero_grad()`` set gradients to zero, as before torch 2.0, instead of taking them away."""
    zero_grad = model.zero_grad
    before = model.__dict__.get("zero_grad")
    model.zero_grad = lambda set_to_none=False: zero_grad(set_to_none=False)
    try:
        yield
    finally:
        del model.zero_grad
        if before is not None:
            model.zero_grad = before


def clip_grads(original: Callable[..., Any], self: Any, params: Iterable[Any]) -> Any:
    """Wrap ``OptimizerHook.clip_grads``: let the optimizer clip if it can and if it comes to the same.

    Args:
        original: mmcv's method.
        self: the hook; ``self.grad_clip`` are arguments of ``torch.nn.utils.clip_grad_norm_``.
        params: the parameters of the model.

    Returns:
        The norm of all gradients before they were clipped, ``None`` if there are none.
    """
    params = list(params)  # mmcv hands over an iterator
    fused = fused_clipping(_optimizer.get(), params, self.grad_clip)
    return original(self, params) if fused is None else fused(**self.grad_clip)


def fused_clipping(optimizer: Any, params: list[Any], grad_clip: dict[str, Any]) -> Optional[Callable[..., Any]]:
    """Return the optimizer's own clipping, or ``None`` where it has none or would clip something else.

    It takes the norm over the parameters of the optimizer: the same only if no others have a gradient.

    Args:
        optimizer: the one of the hook that runs, ``None`` where there is none or it is not a fused one.
        params: the parameters to clip.
        grad_clip: the arguments of the clipping.
    """
    if optimizer is None or not FUSED_ARGUMENTS.issuperset(grad_clip):
        return None
    wanted = {id(param) for param in params if param.requires_grad and param.grad is not None}
    updated = {id(param) for group in optimizer.param_groups for param in group["params"] if param.grad is not None}
    return optimizer.clip_grad_norm_fused_ if wanted and wanted == updated else None


OPTIMIZER_HOOKS = pc.Patch(
    "mmcv.optimizer_hooks",
    [
        pc.Wrap(f"{_HOOKS}:OptimizerHook.clip_grads", clip_grads),
        pc.Wrap(f"{_HOOKS}:OptimizerHook.after_train_iter", after_train_iter),
        pc.Wrap(f"{_HOOKS}:GradientCumulativeOptimizerHook.after_train_iter", after_train_iter),
        pc.Wrap(f"{_HOOKS}:Fp16OptimizerHook.after_train_iter", after_train_iter),
        pc.Wrap(f"{_HOOKS}:GradientCumulativeFp16OptimizerHook.after_train_iter", after_train_iter),
    ],
    summary="gradients clipped by the fused optimizer where it can, in the optimizer hooks, those for fp16 too",
    requires="mmcv>=1.3.12,<2",  # the first that has the hooks that accumulate gradients
    legacy_names=["optimizer_hooks", "OptimizerHooks"],
    default=False,
    checks=pc.Check("mmcv_npu.checks.optimizer_hooks:trained", dtypes={"float32": 1e-4}),
)
