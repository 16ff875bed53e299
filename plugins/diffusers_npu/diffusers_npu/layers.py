"""GEGLU and RMSNorm of diffusers: the NPU's kernels for tensors on an NPU, the library's own formula for all others.

diffusers 0.35 to 0.42 call ``torch_npu.npu_geglu`` and ``torch_npu.npu_rms_norm`` wherever torch_npu is installed, also
for tensors on the CPU, which the kernels refuse. Two more differences from the formulas of the same classes are mended:

- ``npu_geglu`` is called with ``approximate=1``, the approximation of GELU by tanh; the formula is the exact GELU.
- ``npu_rms_norm`` is called for any weight. It has no form without a weight (before 0.42), normalizes over all
  dimensions of the weight where the formula has the last one only, and keeps the dtype of the input where the formula
  returns that of both.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from diffusers_npu.declared import LEGACY_NAMES, TOLERANCES, UP_TO
from diffusers_npu.derivatives import once

__all__ = ["GEGLU", "RMS_NORM", "geglu", "rms_norm"]


def _has_kernels_for(tensor: Any) -> bool:
    import torch

    return (
        tensor.device.type == "npu"
        and tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and tensor.numel() > 0
    )


def _besides(module: str) -> str:
    return (
        "; diffusers itself calls this kernel: for its formula also set "
        f"diffusers.models.{module}.is_torch_npu_available = lambda: False"
    )


def geglu(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
    """Do ``GEGLU.forward``: the projection, then the first half times the exact GELU of the second."""
    if args or kwargs.get("scale") is not None:
        from diffusers.models.activations import deprecate

        deprecate("scale", "1.0.0", "The `scale` argument is deprecated and will be ignored.")
    hidden_states = self.proj(hidden_states)
    if _has_kernels_for(hidden_states):
        import torch_npu

        result = torch_npu.npu_geglu(hidden_states, dim=-1, approximate=0)[0]
        return once(result, "diffusers.geglu", _besides("activations"))
    hidden_states, gate = hidden_states.chunk(2, dim=-1)
    return hidden_states * self.gelu(gate)


def rms_norm(self: Any, hidden_states: Any) -> Any:
    """Do ``RMSNorm.forward``: on the kernel where it computes what the formula does, by the formula elsewhere."""
    import torch

    weight = self.weight
    input_dtype = hidden_states.dtype
    if weight is not None and weight.dtype in (torch.float16, torch.bfloat16):
        converted = hidden_states.to(weight.dtype)
    else:
        converted = hidden_states
    fits = weight is not None and weight.dim() == 1 and weight.dtype == input_dtype
    if fits and _has_kernels_for(hidden_states) and weight.device == hidden_states.device:
        import torch_npu

        normalized = torch_npu.npu_rms_norm(converted, weight, epsilon=self.eps)[0]
        normalized = once(normalized, "diffusers.rms_norm", _besides("normalization"))
    else:
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        normalized = hidden_states * torch.rsqrt(variance + self.eps)
        if weight is None:
            return normalized.to(input_dtype)
        if weight.dtype in (torch.float16, torch.bfloat16):
            normalized = normalized.to(weight.dtype)
        normalized = normalized * weight
    bias = getattr(self, "bias", None)
    return normalized if bias is None else normalized + bias


GEGLU = pc.Patch(
    "diffusers.geglu",
    pc.Replace("diffusers.models.activations:GEGLU.forward", "diffusers_npu.layers:geglu"),
    summary="GEGLU: the kernel for tensors on the NPU only, with the exact GELU",
    requires=[f"diffusers>=0.35,<{UP_TO}"],
    needs=["torch_npu"],
    legacy_names=LEGACY_NAMES,
    checks=pc.Check("diffusers_npu.checks:geglu", dtypes=TOLERANCES),
)
RMS_NORM = pc.Patch(
    "diffusers.rms_norm",
    pc.Replace("diffusers.models.normalization:RMSNorm.forward", "diffusers_npu.layers:rms_norm"),
    summary="RMSNorm: the kernel for tensors on the NPU only, and only where it computes what the formula does",
    requires=[f"diffusers>=0.35,<{UP_TO}"],
    needs=["torch_npu"],
    legacy_names=LEGACY_NAMES,
    checks=pc.Check("diffusers_npu.checks:rms_norm", dtypes=TOLERANCES),
)
