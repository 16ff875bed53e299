"""RMSNorm with the kernel ``torch_npu.npu_rms_norm``."""

from __future__ import annotations

from typing import Any

#: The types that the kernel takes, by name.
DTYPES = ("torch.float32", "torch.float16", "torch.bfloat16")


def takes_plain(self: Any, hidden_states: Any) -> bool:
    """Return True for a call of an RMSNorm that the kernel takes: on the NPU, in one floating-point type.

    Args:
        self: the norm.
        hidden_states: (..., width).
    """
    return (
        hidden_states.device.type == "npu"
        and hidden_states.dtype == self.weight.dtype
        and str(hidden_states.dtype) in DTYPES
    )


def plain(self: Any, hidden_states: Any) -> Any:
    """Replace ``weight * x / sqrt(mean(x * x) + variance_epsilon)``.

    Args:
        self: the norm.
        hidden_states: (..., width).
    """
    import torch_npu

    return torch_npu.npu_rms_norm(hidden_states, self.weight, epsilon=self.variance_epsilon)[0]
