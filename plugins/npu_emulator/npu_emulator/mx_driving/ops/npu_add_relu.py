"""Fused addition and ReLU (mx-driving 26.2, ``mx_driving/ops/npu_add_relu.py``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from npu_emulator.mx_driving._counting import calls

# From this many elements on, mx_driving runs its own kernel, which writes the result over x (aclnnAddRelu, xRef).
IN_PLACE_FROM = 2_000_000


class AddReluFunction(Function):
    """``relu(x + y)``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        """Add and clamp at zero.

        Args:
            ctx: the autograd context.
            x: any shape. **Overwritten with the result when it has 2,000,000 elements or more**, as on the device;
                autograd then raises if an earlier operation still needs the old value (the device does not notice).
            y: same shape and dtype as x: there is no broadcasting.

        Returns:
            The result, of the same shape.

        Raises:
            ValueError: x and y differ in shape or dtype.
        """
        if x.shape != y.shape or x.dtype != y.dtype:
            raise ValueError(
                f"mx_driving.npu_add_relu: expected y of the shape and dtype of x, {tuple(x.shape)} {x.dtype}, "
                f"found {tuple(y.shape)} {y.dtype}"
            )
        calls["npu_add_relu"] += 1
        output = x.add_(y).relu_() if x.numel() >= IN_PLACE_FROM else (x + y).relu_()
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of x and y, which are one tensor."""
        calls["npu_add_relu_backward"] += 1
        (output,) = ctx.saved_tensors
        grad = torch.ops.aten.threshold_backward(grad_output, output, threshold=0)
        return grad, grad


# Bound as in mx_driving: positional arguments only.
npu_add_relu = AddReluFunction.apply
