"""RMSNorm with ``torch_npu.npu_rms_norm``: ``x / sqrt(mean(x * x) + eps) * weight``, computed in float32.

The kernel takes 1 to 8 dimensions in float32, float16 and bfloat16 (op-plugin, ``torch_npu-npu_rms_norm.md``). Where
the original multiplies with the weight in float32, the kernel gets float32, too.

Each ``takes_...`` returns whether the kernel computes the same as the original; it gets the arguments of its function.
"""

from __future__ import annotations

from typing import Any

from transformers_npu.kernels.calls import alike, once

__all__ = [
    "rms_norm",
    "rms_norm_gated",
    "rms_norm_gated_in_float32",
    "rms_norm_of_gated",
    "rms_norm_plus_one",
    "rms_norm_without_weight",
    "takes_rms_norm",
    "takes_rms_norm_gated",
    "takes_rms_norm_gated_in_float32",
    "takes_rms_norm_of_gated",
    "takes_rms_norm_plus_one",
    "takes_rms_norm_without_weight",
]

MOST_DIMENSIONS = 8


def rms_norm(x: Any, weight: Any, eps: float) -> Any:
    """Return ``weight * x / sqrt(mean(x * x) + eps)``.

    Args:
        x: (..., width).
        weight: (width,).
        eps: above 0.
    """
    import torch_npu

    return once(torch_npu.npu_rms_norm(x, weight, epsilon=eps)[0], "transformers.rms_norm")


def takes_rms_norm(x: Any, weight: Any, eps: float) -> bool:
    """Return True for a call that :func:`rms_norm` computes; the same arguments."""
    return (
        alike(x, weight)
        and weight.dim() == 1
        and 0 < x.dim() <= MOST_DIMENSIONS
        and x.shape[-1] == weight.shape[0]
        and x.numel() > 0
        and type(eps) is float
    )


def rms_norm_plus_one(x: Any, weight: Any, eps: float) -> Any:
    """Return ``(1 + weight) * x / sqrt(mean(x * x) + eps)``, in float32 up to the result; arguments as above."""
    return rms_norm(x.float(), 1.0 + weight.float(), eps).to(x.dtype)


takes_rms_norm_plus_one = takes_rms_norm


def rms_norm_without_weight(x: Any, eps: float) -> Any:
    """Return ``x / sqrt(mean(x * x) + eps)``; arguments as above."""
    return rms_norm(x, x.new_ones(x.shape[-1]), eps)


def takes_rms_norm_without_weight(x: Any, eps: float) -> bool:
    """Return True for a call that :func:`rms_norm_without_weight` computes; the same arguments."""
    return alike(x) and 0 < x.dim() <= MOST_DIMENSIONS and x.numel() > 0 and type(eps) is float


def rms_norm_gated(x: Any, gate: Any, weight: Any, eps: float, activation: str) -> Any:
    """Return ``rms_norm(x) * activation(gate)``; the gate counts in float32.

    Args:
        x: (..., width).
        gate: of the same shape.
        weight: (width,).
        eps: above 0.
        activation: its name in ``ACT2FN`` of transformers.
    """
    from transformers.activations import ACT2FN

    return (rms_norm(x, weight, eps) * ACT2FN[activation](gate.float())).to(x.dtype)


def takes_rms_norm_gated(x: Any, gate: Any, weight: Any, eps: float, activation: str) -> bool:
    """Return True for a call that :func:`rms_norm_gated` computes; the same arguments."""
    return gate is not None and alike(x, gate) and x.shape == gate.shape and takes_rms_norm(x, weight, eps)


def rms_norm_gated_in_float32(x: Any, gate: Any, weight: Any, eps: float, activation: str) -> Any:
    """Return ``rms_norm(x) * activation(gate)``, in float32 up to the result; arguments as above."""
    from transformers.activations import ACT2FN

    return (rms_norm(x.float(), weight.float(), eps) * ACT2FN[activation](gate.float())).to(x.dtype)


takes_rms_norm_gated_in_float32 = takes_rms_norm_gated


def rms_norm_of_gated(x: Any, gate: Any, weight: Any, eps: float) -> Any:
    """Return ``weight * rms_norm(x * silu(gate))``; a gate of ``None`` counts as 1. Arguments as above."""
    import torch

    gated = x.float() if gate is None else x.float() * torch.nn.functional.silu(gate.float())
    return weight * rms_norm_without_weight(gated, eps).to(x.dtype)


def takes_rms_norm_of_gated(x: Any, gate: Any, weight: Any, eps: float) -> bool:
    """Return True for a call that :func:`rms_norm_of_gated` computes; the same arguments."""
    return takes_rms_norm(x, weight, eps) and (gate is None or (alike(x, gate) and gate.shape == x.shape))
