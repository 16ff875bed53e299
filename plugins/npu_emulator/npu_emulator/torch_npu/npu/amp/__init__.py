"""Mixed precision on the NPU: torch's own, with the NPU as its device."""

from __future__ import annotations

from npu_emulator.torch_npu.npu.amp import autocast_mode, common, grad_scaler
from npu_emulator.torch_npu.npu.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from npu_emulator.torch_npu.npu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "autocast_mode", "common", "custom_bwd", "custom_fwd", "grad_scaler"]
