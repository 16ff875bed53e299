"""One step of AdamW on whole groups of parameters (mx-driving 26.2, ``mx_driving/ops/fused_adamw_custom.py``).

Papers: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (arXiv:1711.05101); Reddi et al., "On the
Convergence of Adam and Beyond" (ICLR 2018) for ``amsgrad``.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from npu_emulator.mx_driving._counting import calls


@torch.no_grad()
def fused_adamw_custom(
    combined_param: Tensor,
    combined_grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Optional[Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    step: int,
    amsgrad: bool,
) -> None:
    """Update parameters in place, as ``torch.optim.AdamW`` does.

    Args:
        combined_param: parameters, float32, float16 or bfloat16 on the device; **overwritten**, and so are exp_avg,
            exp_avg_sq and, with amsgrad, max_exp_avg_sq. Nothing happens where it is empty.
        combined_grad: gradient, of the same shape, and so are the three below.
        exp_avg: running mean of the gradient.
        exp_avg_sq: running mean of its square.
        max_exp_avg_sq: maximum of exp_avg_sq over all steps; not looked at without amsgrad.
        lr: learning rate.
        beta1: how much of exp_avg stays.
        beta2: how much of exp_avg_sq stays.
        weight_decay: part of the parameters that is taken away per step and learning rate.
        eps: added to the denominator.
        step: number of this step, from 1 on.
        amsgrad: whether to divide by the maximum.

    Raises:
        TypeError: step is a tensor.
        ValueError: the tensors differ in shape.
    """
    if isinstance(step, Tensor):
        raise TypeError("mx_driving.fused_adamw_custom: expected step to be a number, found a tensor; pass step.item()")
    if combined_param.numel() == 0:
        return
    tensors = [combined_grad, exp_avg, exp_avg_sq, *([max_exp_avg_sq] if amsgrad else [])]
    if any(tensor is None or tensor.shape != combined_param.shape for tensor in tensors):
        shapes = [None if tensor is None else tuple(tensor.shape) for tensor in tensors]
        raise ValueError(
            f"mx_driving.fused_adamw_custom: expected tensors of the parameters' shape {tuple(combined_param.shape)}, "
            f"found {shapes}"
        )
    calls["fused_adamw_custom"] += 1

    # Half precision is computed in float32 and rounded once.
    precise = torch.promote_types(combined_param.dtype, torch.float32)
    grad = combined_grad.to(precise)
    mean = exp_avg.to(precise).lerp(grad, 1 - beta1)
    mean_of_square = exp_avg_sq.to(precise) * beta2 + grad * grad * (1 - beta2)
    square = mean_of_square
    if amsgrad:
        assert max_exp_avg_sq is not None, "its shape has been looked at"
        square = torch.maximum(max_exp_avg_sq.to(precise), mean_of_square)
        max_exp_avg_sq.copy_(square)
    denominator = (square / (1 - beta2**step)).sqrt() + eps
    decayed = combined_param.to(precise) * (1 - lr * weight_decay)

    exp_avg.copy_(mean)
    exp_avg_sq.copy_(mean_of_square)
    combined_param.copy_(decayed - lr / (1 - beta1**step) * mean / denominator)
