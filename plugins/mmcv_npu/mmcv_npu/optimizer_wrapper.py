"""mmengine's OptimWrapper with the gradient clipping of torch_npu's fused optimizers.

Those (torch_npu 2.6, ``torch_npu/optim/npu_fused_optim_base.py``) keep all gradients in one tensor for each dtype and
clip it as a whole with ``clip_grad_norm_fused_``. An optimizer without that method is clipped as before.
"""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc
from mmcv_npu.optimizer_hooks import FUSED_ARGUMENTS


class FusedClipping:
    """Called as ``torch.nn.utils.clip_grad_norm_`` is; clips all gradients of one optimizer.

    Args:
        optimizer: one with ``clip_grad_norm_fused_``.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def __call__(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> Any:
        """Clip and return the norm before.

        Args:
            parameters: not used: they are the optimizer's.
            max_norm: the greatest norm.
            norm_type: which norm.
        """
        return self.optimizer.clip_grad_norm_fused_(max_norm, norm_type)


def init(original: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    """Wrap ``OptimWrapper.__init__``: clip with the fused optimizer, where it supports the arguments.

    Clipping by value, and arguments the fused method does not have (``error_if_nonfinite``), stay as they were.

    Args:
        original: the constructor that is wrapped.
        self: the wrapper that is made, also one of a subclass such as ``AmpOptimWrapper``.
        args, kwargs: of the constructor.
    """
    import torch

    original(self, *args, **kwargs)
    if (
        self.clip_grad_kwargs
        and getattr(self, "clip_func", None) is torch.nn.utils.clip_grad_norm_
        and FUSED_ARGUMENTS.issuperset(self.clip_grad_kwargs)
        and hasattr(self.optimizer, "clip_grad_norm_fused_")
    ):
        self.clip_func = FusedClipping(self.optimizer)


OPTIMIZER_WRAPPER = pc.Patch(
    "mmengine.optimizer_wrapper",
    [pc.Wrap("mmengine.optim.optimizer.optimizer_wrapper:OptimWrapper.__init__", init)],
    summary="gradient clipping of torch_npu's fused optimizers in OptimWrapper",
    requires="mmengine<1",
    legacy_names=["optimizer_wrapper", "OptimizerWrapper"],
    default=False,
    checks=[pc.Check("mmcv_npu.checks.optimizer_wrapper:trained", dtypes={"float32": 1e-4})],
)
