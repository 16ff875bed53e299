"""Sparse convolutions as autograd Functions (mx-driving 26.2, ``mx_driving/ops/sparse_functional.py``).

The real Functions take tensors computed from the indices; these take a rulebook instead. Only the modules of
:mod:`npu_emulator.mx_driving.modules.sparse_conv` call them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from npu_emulator.formulas.differentiation import gradients
from npu_emulator.mx_driving._counting import calls
from npu_emulator.mx_driving._rulebook import Rulebook, convolve


class SparseConvFunction(Function):
    """Convolution by a rulebook, whichever of the three kinds made it."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, rulebook: Rulebook, kernel: str) -> Tensor:
        """Convolve.

        Args:
            ctx: the autograd context.
            features: shape (sources, c_in).
            weight: shape (kx, ky, kz, c_in, c_out).
            rulebook: which input goes where through which tap.
            kernel: name of the layer, under which the call is counted.

        Returns:
            Shape (targets, c_out).
        """
        calls[kernel] += 1
        ctx.rulebook, ctx.kernel = rulebook, kernel
        ctx.save_for_backward(features, weight)
        return _convolve(features, weight, rulebook=rulebook)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of features and weight, and ``None`` for the two other arguments."""
        calls[f"{ctx.kernel}_backward"] += 1
        grads = gradients(partial(_convolve, rulebook=ctx.rulebook), ctx.saved_tensors, grad_output)
        return (*grads, None, None)


sparse_convolution = SparseConvFunction.apply


def _convolve(features: Tensor, weight: Tensor, rulebook: Rulebook) -> Tensor:
    return convolve(features, weight.flatten(end_dim=2), rulebook)
