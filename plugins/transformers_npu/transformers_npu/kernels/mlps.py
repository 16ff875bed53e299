"""Gated MLPs whose two projections are one: ``down(act(first half) * second half)``.

``torch_npu.npu_swiglu`` and ``npu_geglu`` take both halves in one tensor, as such a projection returns them. Where gate
and up are two projections, their results would have to be copied into one tensor first: these MLPs are left alone.
"""

from __future__ import annotations

from typing import Any, Optional

from transformers_npu.kernels.calls import alike, once

SILU, GELU, GELU_TANH = "silu", "gelu", "gelu, by tanh"


def fused_mlp(x: Any, projection: Any, activation: Any, down: Any) -> Any:
    """Return ``down(activation(first half of projection(x)) * second half)``.

    Args:
        x: (..., width).
        projection: a module that returns both halves.
        activation: a module, SiLU or GELU.
        down: a module.
    """
    return down(_gated(projection(x), _kind(activation)))


def takes_fused_mlp(x: Any, projection: Any, activation: Any, down: Any) -> bool:
    """Return True for a call that :func:`fused_mlp` computes; the same arguments, as for the functions below."""
    return _kind(activation) is not None and alike(x) and x.numel() > 0


def fused_mlp_with_dropout(x: Any, projection: Any, activation: Any, dropout: Any, down: Any) -> Any:
    """Do the same, with a module ``dropout`` before ``down``."""
    return down(dropout(_gated(projection(x), _kind(activation))))


def takes_fused_mlp_with_dropout(x: Any, projection: Any, activation: Any, dropout: Any, down: Any) -> bool:
    """Return True for a call that :func:`fused_mlp_with_dropout` computes."""
    return takes_fused_mlp(x, projection, activation, down)


def fused_silu_mlp(x: Any, projection: Any, down: Any) -> Any:
    """Do the same as :func:`fused_mlp` with SiLU."""
    return down(_gated(projection(x), SILU))


def takes_fused_silu_mlp(x: Any, projection: Any, down: Any) -> bool:
    """Return True for a call that :func:`fused_silu_mlp` computes."""
    return alike(x) and x.numel() > 0


def _gated(both: Any, kind: Optional[str]) -> Any:
    import torch_npu

    if kind == SILU:
        result = torch_npu.npu_swiglu(both, dim=-1)
    else:
        result = torch_npu.npu_geglu(both, dim=-1, approximate=int(kind == GELU_TANH), activate_left=True)[0]
    return once(result, "transformers.gated_mlp")


def _kind(activation: Any) -> Optional[str]:
    """Return which activation a module computes; ``None`` for one that no kernel has."""
    import torch
    from transformers import activations

    kind = type(activation)
    if kind in (torch.nn.SiLU, getattr(activations, "SiLUActivation", None)):
        return SILU
    if kind is torch.nn.GELU:
        return GELU_TANH if activation.approximate == "tanh" else GELU
    if kind is activations.GELUActivation:
        return GELU if activation.act is torch.nn.functional.gelu else None
    return (
        GELU_TANH if kind is getattr(activations, "GELUTanh", getattr(activations, "PytorchGELUTanh", None)) else None
    )
